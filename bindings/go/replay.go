// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"io"

	"cachalot.io/go/internal/raw"
)

// ReplayOptions are how a trace is replayed. Zero means default in every field.
type ReplayOptions struct {
	// Options is the option string; nil: the recorded one.
	Options *Options
	// Release 0: the recorded one, else the default.
	Release Release
	// Policy is whose decisions are made; PolicyDefault: PyTorch's. Expect needs those.
	Policy Policy
	// Expect hands the recorded addresses out and compares every event (needs the recorded options and release).
	Expect bool
	// Capacity of a device in bytes, at most 4 TiB; 0: the recorded number, else 80 GiB.
	Capacity uint64
	// Fraction is the memory fraction; 0: no limit.
	Fraction float64
	// StopAtOutOfMemory ends the replay at the first request that fails so. Not with Expect.
	StopAtOutOfMemory bool
	// History is kept, for Replay.Snapshot.
	History bool
	// Progress is called now and then with the events done and all of them; false stops the replay (ErrCallback).
	Progress func(done, total uint64) bool
	// Observer sees what the allocator did at an event, given by its index in the trace, once for each entry. All of the
	// event is done and no lock is held. The entries have no context: that of the event is the trace's. A panic in it
	// ends the replay.
	Observer func(event uint64, entry TraceEntry)
	// EventCount is how many events are replayed, from the first on; 0: all. Not with Expect.
	EventCount uint64
}

func (o ReplayOptions) raw(s *caller) (*raw.ReplayOptions, error) {
	c := &raw.ReplayOptions{Release: narrow(o.Release), Expect: flag(o.Expect), Capacity: o.Capacity,
		Fraction: o.Fraction, Policy: narrow(o.Policy.Kind), Thrift: flag(o.Policy.Thrift),
		Borrow: narrow(o.Policy.Borrow), Streams: flag(o.Policy.AnnouncedStreams), PageBytes: o.Policy.PageBytes,
		StopAtOutOfMemory: flag(o.StopAtOutOfMemory), History: flag(o.History),
		Progress: o.progress(s), Observer: o.observer(s), EventCount: o.EventCount}
	if o.Options != nil {
		if err := checkText(string(*o.Options)); err != nil {
			return nil, err
		}
		c.Config = (*string)(o.Options)
	}
	return c, nil
}

// progress also stops a replay whose observer has panicked.
func (o ReplayOptions) progress(s *caller) raw.ProgressFn {
	return func(done, total uint64) int32 {
		goesOn := s.panicked == nil
		if goesOn && o.Progress != nil {
			goesOn = false
			s.guard(func() error { goesOn = o.Progress(done, total); return nil })
		}
		return 1 - flag(goesOn)
	}
}

func (o ReplayOptions) observer(s *caller) raw.ReplayObserverFn {
	if o.Observer == nil {
		return nil
	}
	return func(event uint64, entry raw.TraceEntry) {
		if s.panicked == nil {
			s.guard(func() error { o.Observer(event, traceEntryOf(entry)); return nil })
		}
	}
}

// Replay is a run of a trace that has ended, with its allocator.
type Replay struct {
	gate      *gate
	raw       raw.Replay
	allocator *Allocator
}

// Replay drives the trace through an allocator of its own over a simulated device: allocations, frees, uses on other
// streams, empty caches. The caller closes it. ErrInvalidArgument for options that do not fit; ErrIO for a trace that
// cannot have happened.
func (t *Trace) Replay(options ReplayOptions) (*Replay, error) {
	var run raw.Replay
	var s caller
	c, err := options.raw(&s)
	if err != nil {
		return nil, err
	}
	err = t.do(func(r raw.Trace) error {
		run, err = raw.ReplayRun(r, c)
		if s.panicked != nil {
			raw.ReplayDestroy(run) // A replay that ended at a failed request has worked: it asks for no progress then.
		}
		return s.result(err)
	})
	if err != nil {
		return nil, err
	}
	replay := &Replay{gate: newGate("replay", parallel), raw: run}
	replay.allocator = &Allocator{gate: replay.gate, raw: raw.ReplayAllocator(run), owner: replay}
	replay.gate.object = raw.NumberOf(replay.allocator.raw)
	watch(replay, replay.gate)
	return replay, nil
}

// WriteScript writes the run as a script for the oracle (tests/oracle/FORMAT.md). Errors as of Replay; one of the
// writer is ErrCallback and that error.
func (t *Trace) WriteScript(to io.Writer, options ReplayOptions) error {
	if err := needed(to != nil, "the writer"); err != nil {
		return err
	}
	var s caller
	c, err := options.raw(&s)
	if err != nil {
		return err
	}
	return t.do(func(r raw.Trace) error { return s.result(raw.ReplayWriteScript(r, c, writeTo(&s, to))) })
}

// ReplayResult is what came of a replay. Bytes are those of all devices.
type ReplayResult struct {
	// Events of the trace that were replayed or compared.
	Events uint64 `json:"events"`
	// Allocations are requests made, OutOfMemory those of them that failed so.
	Allocations uint64 `json:"allocations"`
	OutOfMemory uint64 `json:"out_of_memory"`
	// Driver calls that obtained memory and that gave it back.
	DriverAllocations uint64 `json:"driver_allocations"`
	DriverFrees       uint64 `json:"driver_frees"`
	// Segments at the end (expandable ones included) and the most there were at a time.
	Segments      uint64 `json:"segments"`
	SegmentsPeak  uint64 `json:"segments_peak"`
	PeakRequested uint64 `json:"peak_requested"`
	PeakAllocated uint64 `json:"peak_allocated"`
	PeakReserved  uint64 `json:"peak_reserved"`
	// DifferingEvents, with Expect, and the index of the first one in the trace (math.MaxUint64: none).
	DifferingEvents uint64 `json:"differing_events"`
	FirstDifference uint64 `json:"first_difference"`
	// Expected and Actual are what was expected there and what came; "" without a difference.
	Expected string `json:"expected"`
	Actual   string `json:"actual"`
	// PeakDeviceBytes is the most that the driver had handed out of one device. With PyTorch's decisions and without a
	// memory fraction the replay is the same on a device of any size from this one up to its own.
	PeakDeviceBytes uint64 `json:"peak_device_bytes"`
}

// ReplayCall is calls of one function of the driver with one size, behind the same gap.
type ReplayCall struct {
	// Function is its name in the CUDA driver, like cuMemAlloc.
	Function string `json:"function"`
	// Size in bytes.
	Size uint64 `json:"size"`
	// Count has those that failed too, and none of what an ending context gives back.
	Count uint64 `json:"count"`
	// GapUS is the microseconds that the program had worked since the function's call before, rounded down to a power of two.
	GapUS uint64 `json:"gap_us"`
}

// Calls are those by which the replay obtained memory and gave it back, by function, then by size, then by gap.
func (r *Replay) Calls() ([]ReplayCall, error) {
	c, err := r.gate.enter()
	if err != nil {
		return nil, err
	}
	defer c.leave()
	calls := make([]ReplayCall, raw.ReplayCallCount(r.raw))
	for i := range calls {
		call, err := raw.ReplayGetCall(r.raw, uint64(i))
		if err != nil {
			return nil, wrap(err)
		}
		calls[i] = ReplayCall{Function: call.Function, Size: call.Size, Count: call.Count, GapUS: call.GapUs}
	}
	return calls, nil
}

// Result is what came of it.
func (r *Replay) Result() (ReplayResult, error) {
	c, err := r.gate.enter()
	if err != nil {
		return ReplayResult{}, err
	}
	defer c.leave()
	result, err := raw.ReplayGetResult(r.raw)
	return ReplayResult(result), wrap(err)
}

// Snapshot takes one of the allocator at the end of the run. Its history is that of the replay, with the times and the
// contexts of the recording; where Expect found no difference it is the recorded one. The caller closes it.
// ErrInvalidState without ReplayOptions.History.
func (r *Replay) Snapshot() (*Snapshot, error) {
	c, err := r.gate.enter()
	if err != nil {
		return nil, err
	}
	defer c.leave()
	s := &Snapshot{gate: newGate("snapshot", 1)}
	s.devices = int(raw.DriverDeviceCount(raw.AllocatorDriver(r.allocator.raw)))
	if s.raw, err = raw.ReplaySnapshot(r.raw); err != nil {
		return nil, wrap(err)
	}
	watch(s, s.gate)
	return s, nil
}

// Allocator is the one at the end of the run, to be asked for statistics, summary and snapshot. It is the replay's:
// closing it does nothing, and it is closed with the replay. One goroutine at a time.
func (r *Replay) Allocator() *Allocator {
	return r.allocator
}

// Close ends the replay and its allocator. Again: nothing.
func (r *Replay) Close() error {
	return r.gate.close(func() error {
		raw.ReplayDestroy(r.raw)
		return nil
	})
}
