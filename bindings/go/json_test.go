// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"cachalot.io/go"
)

// There and back.

// back is what comes of a value that is written as JSON and read again.
func back[T any](t *testing.T, value T) (again T) {
	t.Helper()
	data := need[[]byte](t)(json.Marshal(value))
	if err := json.Unmarshal(data, &again); err != nil {
		t.Errorf("%s: %v", data, err)
	} else if !reflect.DeepEqual(again, value) {
		t.Errorf("%s has become %+v", data, again)
	}
	return again
}

// withHistory is an allocator with a history, a live block and one that waits for a stream.
func withHistory(t *testing.T) *cachalot.Allocator {
	device := sim(t, cachalot.SimOptions{Devices: 2})
	a := over(t, device.Driver, cachalot.TrackLabels())
	works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 10}))
	block(t, a, mib, 0)
	b := block(t, a, 3*mib, 0)
	works(t, device.QueueWork(0, 5), b.RecordStream(5), b.Close())
	return a
}

func TestWhatIsWrittenAsJSONIsReadBack(t *testing.T) {
	a := withHistory(t)
	s := need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	defer s.Close()
	back(t, need[[]cachalot.Segment](t)(s.Segments()))
	back(t, need[[]cachalot.TraceEntry](t)(s.History(0)))
	report := need[*cachalot.Report](t)(a.Report(cachalot.ReportOptions{Size: 512}))
	defer report.Close()
	back(t, need[cachalot.ReportNumbers](t)(report.Numbers()))
	back(t, need[[]cachalot.ReportReason](t)(report.Reasons()))
	back(t, need[[]cachalot.ReportHolder](t)(report.Holders()))
	back(t, need[cachalot.Settings](t)(a.Settings()))
	back(t, need[cachalot.Stats](t)(a.Stats(0)))
	back(t, cachalot.TraceEvent{Action: cachalot.ActionAnnotate})
	back(t, cachalot.SegmentBlock{State: 77})
	back(t, []cachalot.Action{cachalot.ActionAlloc, cachalot.ActionAnnotate, -1, 1 << 40})
	back(t, []cachalot.Reason{cachalot.ReasonUsable, cachalot.ReasonNotSplit, 9})
	back(t, []cachalot.Outcome{cachalot.OutcomeNoRequest, cachalot.OutcomeFails, 5})
	back(t, []cachalot.BlockState{cachalot.BlockInactive, cachalot.BlockPendingFree, 3})
	for _, text := range []string{`"nonsense"`, `"unknown"`, `""`} {
		var action cachalot.Action
		refused(t, text, json.Unmarshal([]byte(text), &action))
	}
}

func TestASnapshotIsAnObjectOfJSON(t *testing.T) {
	s := need[*cachalot.Snapshot](t)(withHistory(t).Snapshot(cachalot.SnapshotOptions{}))
	var all struct {
		Segments []cachalot.Segment
		History  [][]cachalot.TraceEntry
		Settings cachalot.Settings
		Options  *cachalot.Options
	}
	works(t, json.Unmarshal(need[[]byte](t)(json.Marshal(s)), &all))
	if !reflect.DeepEqual(all.Segments, need[[]cachalot.Segment](t)(s.Segments())) || len(all.Segments) == 0 {
		t.Errorf("%+v", all.Segments)
	}
	if len(all.History) != 2 || !reflect.DeepEqual(all.History[0], need[[]cachalot.TraceEntry](t)(s.History(0))) ||
		len(all.History[0]) == 0 || all.History[1] == nil {
		t.Errorf("%+v", all.History)
	}
	same(t, "settings", all.Settings, need[cachalot.Settings](t)(s.Settings()))
	same(t, "options", *all.Options, "")
	works(t, s.Close())
	if _, err := json.Marshal(s); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
}

func TestAListOfNothingIsNoNull(t *testing.T) {
	a := simulated(t)
	s := need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	defer s.Close()
	report := need[*cachalot.Report](t)(a.Report(cachalot.ReportOptions{}))
	defer report.Close()
	for what, list := range map[string]any{
		"segments": need[[]cachalot.Segment](t)(s.Segments()),
		"history":  need[[]cachalot.TraceEntry](t)(s.History(0)),
		"holders":  need[[]cachalot.ReportHolder](t)(report.Holders()),
		"reasons":  need[[]cachalot.ReportReason](t)(report.Reasons()),
		"labels":   need[[]cachalot.LabelStats](t)(a.LabelStats(0)),
		"pools":    need[[]cachalot.PoolStats](t)(a.PoolStats(0)),
		"tenants":  need[[]cachalot.TenantStats](t)(a.TenantStats(0)),
	} {
		same(t, what, string(need[[]byte](t)(json.Marshal(list))), "[]")
	}
}

func TestWhatCallbacksGetHasKeysLikeAllElse(t *testing.T) {
	same(t, "a rejection", string(need[[]byte](t)(json.Marshal(cachalot.Rejection{SegmentSize: 2}))),
		`{"device":0,"segment_size":2,"reserved":0,"device_total":0}`)
	same(t, "pressure", string(need[[]byte](t)(json.Marshal(cachalot.Pressure{RequesterName: "a"}))),
		`{"reason":0,"device":0,"missing_bytes":0,"allocated_bytes":0,"guaranteed_bytes":0,"requester":0,`+
			`"requester_name":"a","requester_priority":0,"is_guaranteed":false}`)
}

func TestAnOutOfMemoryFromElsewhereIsOneToo(t *testing.T) {
	a := small(t)
	_, err := a.Allocate(1<<40, 0, 0)
	var numbers *cachalot.OutOfMemoryError
	if !errors.As(err, &numbers) {
		t.Fatal(err)
	}
	var again cachalot.OutOfMemoryError
	works(t, json.Unmarshal(need[[]byte](t)(json.Marshal(numbers)), &again))
	same(t, "numbers", again.OutOfMemory, numbers.OutOfMemory)
	for _, err := range []error{&again, &cachalot.OutOfMemoryError{}} {
		if !errors.Is(err, cachalot.ErrOutOfMemory) || errors.Is(err, cachalot.ErrDriver) {
			t.Errorf("%#v", err)
		}
		same(t, "text", err.Error(), cachalot.ErrOutOfMemory.Error())
		var failed *cachalot.Error
		same(t, "it has an *Error", errors.As(err, &failed), false)
	}
}
