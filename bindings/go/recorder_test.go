// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cachalot.io/go"
)

// recordOneBlock runs a block of 3 MiB, with a label, beside one that is live already.
func recordOneBlock(t *testing.T, a *cachalot.Allocator, options cachalot.RecorderOptions) cachalot.RecorderStats {
	t.Helper()
	live, err := a.Allocate(1000, 0, 0)
	works(t, err)
	recorder, err := a.StartRecorder(options)
	works(t, err)
	end, err := cachalot.LabelScope("model")
	works(t, err)
	block, err := a.Allocate(3<<20, 0, 0)
	works(t, err)
	works(t, block.Close())
	works(t, end())
	works(t, recorder.Flush())
	stats, err := recorder.Stats()
	works(t, err)
	works(t, recorder.Close())
	works(t, recorder.Close())
	if _, err := recorder.Stats(); !errors.Is(err, cachalot.ErrClosed) {
		t.Errorf("a closed recorder: %v", err)
	}
	works(t, live.Close())
	return stats
}

func expectRecording(t *testing.T, text []byte) {
	t.Helper()
	trace, err := cachalot.ReadTrace(bytes.NewReader(text))
	works(t, err)
	defer trace.Close()
	info, err := trace.Info()
	works(t, err)
	if info.Format != 2 || info.Workload != "test" {
		t.Errorf("the header: %+v", info)
	}
	first, err := trace.Event(0)
	works(t, err)
	last, err := trace.Event(info.EventCount - 1)
	works(t, err)
	if first.Action != cachalot.ActionLiveAtBegin || last.Action != cachalot.ActionRecordingEnd || last.Size != 0 {
		t.Errorf("from %+v to %+v", first, last)
	}
	for i := range info.EventCount {
		event, err := trace.Event(i)
		works(t, err)
		if event.Action != cachalot.ActionAlloc {
			continue
		}
		label, err := trace.ContextText(event.Context)
		works(t, err)
		if label != "model" {
			t.Errorf("the label is %q", label)
		}
	}
}

func TestARecorderWritesToAFileOrAWriter(t *testing.T) {
	a := simulated(t)
	path := filepath.Join(t.TempDir(), "run")
	stats := recordOneBlock(t, a, cachalot.RecorderOptions{Path: path, Workload: "test"})
	if stats.Events < 5 || stats.Lost != 0 || stats.Bytes == 0 {
		t.Errorf("%+v", stats)
	}
	text, err := os.ReadFile(path)
	works(t, err)
	expectRecording(t, text)

	var buffer bytes.Buffer
	stats = recordOneBlock(t, a, cachalot.RecorderOptions{Writer: &buffer, Workload: "test"})
	if stats.Lost != 0 {
		t.Errorf("%+v", stats)
	}
	expectRecording(t, buffer.Bytes())

	if _, err := a.StartRecorder(cachalot.RecorderOptions{}); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("neither path nor writer: %v", err)
	}
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestAWriterThatFailsLosesEventsAndNoRequest(t *testing.T) {
	a := simulated(t)
	recorder, err := a.StartRecorder(cachalot.RecorderOptions{Writer: fullWriter{}})
	works(t, err)
	block, err := a.Allocate(1, 0, 0)
	works(t, err)
	works(t, block.Close())
	if err := recorder.Flush(); !errors.Is(err, cachalot.ErrIO) {
		t.Errorf("a flush that loses events: %v", err)
	}
	works(t, recorder.Close())
}

func TestAnOutOfMemoryErrorLeavesItsFiles(t *testing.T) {
	a := simulated(t)
	folder := t.TempDir()
	works(t, a.SetOOMDump(cachalot.OOMDumpOptions{Folder: folder}))
	if _, err := a.Allocate(1<<50, 0, 0); !errors.Is(err, cachalot.ErrOutOfMemory) {
		t.Fatal(err)
	}
	files, err := os.ReadDir(folder)
	works(t, err)
	if len(files) != 4 {
		t.Errorf("%v", files)
	}
	works(t, a.SetOOMDump(cachalot.OOMDumpOptions{}))
	if err := a.SetOOMDump(cachalot.OOMDumpOptions{Folder: folder + "/none"}); !errors.Is(err, cachalot.ErrIO) {
		t.Errorf("no such folder: %v", err)
	}
}
