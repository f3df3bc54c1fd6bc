// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"io"

	"cachalot.io/go/internal/raw"
)

// RecordedContexts is what stands in the field Context of a recorded event.
type RecordedContexts int

// The contexts of a recording.
const (
	RecordLabels          = RecordedContexts(raw.RECORD_LABELS)           // the labels of the thread that asked, with their texts
	RecordHistoryContexts = RecordedContexts(raw.RECORD_HISTORY_CONTEXTS) // those that the history keeps
	RecordNoContexts      = RecordedContexts(raw.RECORD_NO_CONTEXTS)
)

// RecorderOptions are how a recording is made: of Path and Writer one is needed.
type RecorderOptions struct {
	// Path names the file; %p stands for the number of the process. A file that exists is kept, and the new file gets
	// a number behind its name (".2").
	Path string
	// MaxBytes is what the recording may take, at least 2 MiB; 0: any number. When half of it is used, the file is kept
	// beside as PATH.before, and a new one begins with what is live.
	MaxBytes uint64
	// Writer gets whole lines, up to 64 KiB at a time, on the goroutine that fills the buffer and under a lock: calls
	// of any allocator from within are refused (ErrInvalidState). An error or a panic of it ends the recording.
	Writer   io.Writer
	Contexts RecordedContexts
	// Workload is what is recorded, for the header of the trace.
	Workload string
}

// Recorder writes the history of an allocator as a trace while it runs. It lives as long as the allocator, unless it
// is closed.
type Recorder struct {
	gate      *gate
	allocator *Allocator
	id        uint64
}

// StartRecorder starts a recorder on all devices. The recording begins with the blocks that are live, and no event is
// missing behind them. ErrInvalidArgument for options that do not fit each other; ErrIO if the file cannot be made;
// ErrNotSupported under backend:cudaMallocAsync. docs/debugging.md tells more.
func (a *Allocator) StartRecorder(options RecorderOptions) (*Recorder, error) {
	for _, text := range []string{options.Path, options.Workload} {
		if err := checkText(text); err != nil {
			return nil, err
		}
	}
	c := raw.RecorderOptions{Path: text(options.Path), MaxBytes: options.MaxBytes, Contexts: narrow(options.Contexts),
		Workload: text(options.Workload)}
	if to := options.Writer; to != nil {
		c.Write = func(data []byte) int32 {
			n, err := to.Write(data)
			return flag(err != nil || n != len(data))
		}
	}
	id, err := ask(a, func(r raw.Allocator) (uint64, error) { return raw.RecorderStart(r, &c) })
	if err != nil {
		return nil, err
	}
	return &Recorder{gate: newGate("recorder", 1), allocator: a, id: id}, nil
}

// do calls a function of the recorder that can fail.
func (r *Recorder) do(call func(raw.Allocator) error) error {
	c, err := r.gate.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	return r.allocator.do(call)
}

// Flush writes what is held back: lines for the writer, and texts of contexts. ErrIO if events are lost.
func (r *Recorder) Flush() error {
	return r.do(func(a raw.Allocator) error { return raw.RecorderFlush(a, r.id) })
}

// RecorderStats is what a recorder has written.
type RecorderStats struct {
	// Events that it has seen, blocks that were live included.
	Events uint64 `json:"events"`
	// Lost lines: the disk is full, or the writer has failed.
	Lost uint64 `json:"lost"`
	// Bytes of all files.
	Bytes uint64 `json:"bytes"`
}

// Stats is what it has written.
func (r *Recorder) Stats() (stats RecorderStats, err error) {
	err = r.do(func(a raw.Allocator) error {
		s, err := raw.RecorderGetStats(a, r.id)
		stats = RecorderStats(s)
		return err
	})
	return stats, err
}

// Path is the file that it writes; "" if there is none.
func (r *Recorder) Path() (path string, err error) {
	err = r.do(func(a raw.Allocator) (err error) {
		path, err = raw.RecorderPath(a, r.id)
		return err
	})
	return path, err
}

// Close writes the last line, which says how many events are lost, and ends the recorder. Again, or after its
// allocator: nothing.
func (r *Recorder) Close() error {
	return r.gate.close(unlessGone(func() error {
		return r.allocator.do(func(a raw.Allocator) error { return raw.RecorderStop(a, r.id) })
	}))
}

// OOMDumpOptions are what is written when a request fails as out of memory.
type OOMDumpOptions struct {
	// Folder is one that there is; "": nothing is written.
	Folder string
	// Events are the last ones that are kept for it; 0: 10,000. To keep them slows each call down as history does;
	// -1 keeps none.
	Events int64
}

// SetOOMDump has each request that fails as out of memory leave its report, the last events and the live blocks in a
// folder, of the first 16 failures. ErrInvalidArgument for a number that is not acceptable, ErrIO if there is no such
// folder, ErrNotSupported under backend:cudaMallocAsync: nothing has changed.
func (a *Allocator) SetOOMDump(options OOMDumpOptions) error {
	if err := checkText(options.Folder); err != nil {
		return err
	}
	c := raw.OomDumpOptions{Folder: text(options.Folder), Events: options.Events}
	return a.do(func(r raw.Allocator) error { return raw.SetOomDump(r, &c) })
}
