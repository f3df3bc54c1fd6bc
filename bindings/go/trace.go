// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"errors"
	"fmt"
	"io"

	"cachalot.io/go/internal/raw"
)

// Trace is a recorded run. It never changes; any goroutine may read it at any time. docs/trace-format.md describes
// the file.
type Trace struct {
	gate *gate
	raw  raw.Trace
}

// caller keeps what a function of the caller's failed or panicked with, while the library is between the two.
type caller struct {
	err      error
	panicked any
}

// guard runs a function of the caller's; a panic goes on once the library has returned.
func (s *caller) guard(call func() error) bool {
	defer func() {
		if value := recover(); value != nil {
			s.panicked = value
		}
	}()
	s.err = call()
	return s.err == nil
}

// result is the error of the call, with the caller's own inside.
func (s *caller) result(err error) error {
	if s.panicked != nil {
		panic(s.panicked)
	}
	if err != nil && s.err != nil {
		return &streamError{wrap(err), s.err}
	}
	return wrap(err)
}

// streamError is an ErrCallback, and the error of the reader or writer.
type streamError struct {
	call, stream error
}

func (e *streamError) Error() string   { return e.stream.Error() }
func (e *streamError) Unwrap() []error { return []error{e.call, e.stream} }

// ReadTrace reads a trace to its end. The caller closes it. ErrIO with the number of the line for input that is no
// trace; an error of the reader is ErrCallback and that error.
func ReadTrace(from io.Reader) (*Trace, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	if err := needed(from != nil, "the reader"); err != nil {
		return nil, err
	}
	var s caller
	source := input{from: from}
	read, err := raw.TraceRead(func(buffer []byte) int64 {
		n := 0
		if !s.guard(func() (err error) { n, err = source.read(buffer); return err }) {
			return -1
		}
		return int64(n)
	})
	if err = s.result(err); err != nil {
		return nil, err
	}
	t := &Trace{gate: newGate("trace", 1), raw: read}
	watch(t, t.gate)
	return t, nil
}

// input is a reader as the library has it: its error comes after the bytes that came with it, and its end is 0.
type input struct {
	from io.Reader
	err  error
}

func (i *input) read(buffer []byte) (int, error) {
	for tries := 0; i.err == nil && len(buffer) > 0; tries++ {
		n, err := i.from.Read(buffer)
		if n < 0 || n > len(buffer) {
			return 0, fmt.Errorf("a reader says that it has read %d bytes of %d", n, len(buffer))
		}
		if n == 0 && err == nil && tries == 100 {
			err = io.ErrNoProgress
		}
		i.err = err
		if n > 0 {
			return n, nil
		}
	}
	if errors.Is(i.err, io.EOF) {
		return 0, nil
	}
	return 0, i.err
}

func writeTo(s *caller, to io.Writer) raw.WriteFn {
	return func(data []byte) int32 {
		return 1 - flag(s.guard(func() error {
			n, err := to.Write(data)
			if err == nil && n != len(data) {
				err = io.ErrShortWrite
			}
			return err
		}))
	}
}

// WriteTrace writes the history in a snapshot as a trace, with the statistics as its recorded ones (nil: none) and
// the name of what ran. An error of the writer is ErrCallback and that error.
func (s *Snapshot) WriteTrace(to io.Writer, stats *Stats, workload string) error {
	if err := needed(to != nil, "the writer"); err != nil {
		return err
	}
	if err := checkText(workload); err != nil {
		return err
	}
	var c *raw.Stats
	if stats != nil {
		numbers := stats.raw()
		c = &numbers
	}
	var out caller
	return s.do(func(r raw.Snapshot) error {
		return out.result(raw.TraceWrite(r, c, workload, writeTo(&out, to)))
	})
}

// WritePickle writes the snapshot as PyTorch's torch.cuda.memory._dump_snapshot does, for memory_viz
// (pytorch.org/memory_viz). The allocator explains contexts (ContextText): a line "FILE:LINE:FUNCTION" is a frame with
// all three, any other line one with that name. nil: they have no frames, but for those of a replay, which its snapshot
// explains itself. An error of the writer is ErrCallback and that error.
func (s *Snapshot) WritePickle(to io.Writer, allocator *Allocator) error {
	if err := needed(to != nil, "the writer"); err != nil {
		return err
	}
	var out caller
	write := func(a raw.Allocator) error {
		return s.do(func(r raw.Snapshot) error {
			return out.result(raw.SnapshotWritePickle(r, a, writeTo(&out, to)))
		})
	}
	if allocator == nil {
		return write(nil)
	}
	return allocator.do(write)
}

func (t *Trace) do(call func(raw.Trace) error) error {
	c, err := t.gate.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	return wrap(call(t.raw))
}

// TraceInfo is what a trace says of itself; "" where it says nothing.
type TraceInfo struct {
	Workload string `json:"workload"`
	// Torch is the version that recorded it, for example "2.11.0+cu130".
	Torch   string  `json:"torch"`
	Options Options `json:"options"`
	// DeviceTotal is the bytes of the device; 0 if it is not said.
	DeviceTotal uint64 `json:"device_total"`
	EventCount  int    `json:"event_count"`
	StatCount   int    `json:"stat_count"`
	// Release fits Torch; ReleaseDefault for any other version.
	Release     Release `json:"release"`
	DeviceCount int     `json:"device_count"`
	// Recorder is the program that wrote the file.
	Recorder string `json:"recorder"`
	// Format is the trace format, 1 or 2. Only format 2 has the rest.
	Format int `json:"format"`
	// DriverVersion is that of CUDA, 13000 for 13.0; 0 if it is not said.
	DriverVersion int `json:"driver_version"`
	// Command is the program that was recorded, with its arguments, and ProcessID its process.
	Command   string `json:"command"`
	ProcessID int64  `json:"process_id"`
	// ParentProcessID is the process that it was forked from; 0 for none.
	ParentProcessID int64 `json:"parent_process_id"`
	// StartUS is when the recording began, in microseconds since 1970.
	StartUS int64 `json:"start_us"`
}

// Info is what the trace says of itself.
func (t *Trace) Info() (info TraceInfo, err error) {
	err = t.do(func(r raw.Trace) error {
		i, err := raw.TraceGetInfo(r)
		info = TraceInfo{i.Workload, i.Torch, Options(i.Config), i.DeviceTotal, int(i.EventCount), int(i.StatCount),
			Release(i.Release), int(i.DeviceCount), i.Recorder, int(i.Format), int(i.DriverVersion), i.Command, i.ProcessId,
			i.ParentProcessId, i.StartUs}
		return err
	})
	return info, err
}

// TraceEvent is one event of a trace.
type TraceEvent struct {
	Action  Action  `json:"action"`
	Device  int     `json:"device"`
	Address Address `json:"address"`
	Size    uint64  `json:"size"`
	Stream  Stream  `json:"stream"`
	Pool    PoolID  `json:"pool"`
	// TimeUS is -1 where the file does not say it.
	TimeUS int64 `json:"time_us"`
	// Context is 0 where the file does not say it.
	Context uint64 `json:"context"`
	// CostNS is the time of the driver's call, and WaitNS that of it in which the call waited for work of the device;
	// -1 where the file does not say it.
	CostNS int64 `json:"cost_ns"`
	WaitNS int64 `json:"wait_ns"`
	// Thread is the system's number of the thread; 0 where the file does not say it.
	Thread uint64 `json:"thread"`
	// FreedOn is of a free: the stream that it is ordered on, the block's unless the file names another.
	FreedOn Stream `json:"freed_on"`
	// DriverContext is the context that the program asked in; 0 for the device's primary one.
	DriverContext uint64 `json:"driver_context"`
	// Entry is how the program asked, a letter of docs/trace-format.md; 0 where the file does not say it.
	Entry rune `json:"entry"`
}

// TraceFrame is one call of a stack.
type TraceFrame struct {
	// Address is where the call returns to.
	Address Address `json:"address"`
	// FileOffset is that place in the file, in bytes; 0 without a path.
	FileOffset uint64 `json:"file_offset"`
	// Path is the program or library that was loaded there; "" if none is known.
	Path string `json:"path"`
}

// Stack is the calls that led to the events with a context, the innermost first; nil if the trace does not tell them.
func (t *Trace) Stack(context uint64) (frames []TraceFrame, err error) {
	err = t.do(func(r raw.Trace) error {
		for i := uint64(0); ; i++ {
			f, err := raw.TraceGetFrame(r, context, i)
			if err != nil {
				return nil
			}
			frames = append(frames, TraceFrame{Address(f.Address), f.FileOffset, f.Path})
		}
	})
	return frames, err
}

// ContextText is what the trace tells of a context: its label, or its stack, one call a line, the innermost first; ""
// if it tells nothing.
func (t *Trace) ContextText(context uint64) (text string, err error) {
	err = t.do(func(r raw.Trace) (err error) {
		text, err = raw.TraceContextText(r, context)
		return err
	})
	return text, err
}

// Event is one of them, counted from 0. ErrInvalidArgument past the last.
func (t *Trace) Event(index int) (event TraceEvent, err error) {
	err = t.do(func(r raw.Trace) error {
		e, err := raw.TraceGetEvent(r, uint64(index))
		event = TraceEvent{Action(e.Action), int(e.Device), Address(e.Address), e.Size, Stream(e.Stream),
			PoolID(e.Pool), e.TimeUs, e.Context, e.CostNs, e.WaitNs, e.Thread, Stream(e.FreedOn), e.DriverContext,
			rune(e.Entry)}
		return err
	})
	return event, err
}

// Stats are the statistics that were recorded at the end.
func (t *Trace) Stats() (stats []NamedStat, err error) {
	info, err := t.Info()
	if err != nil {
		return nil, err
	}
	stats = make([]NamedStat, 0, info.StatCount)
	err = t.do(func(r raw.Trace) error {
		for i := range info.StatCount {
			name, value, err := raw.TraceGetStat(r, uint64(i))
			if err != nil {
				return err
			}
			stats = append(stats, NamedStat{name, value})
		}
		return nil
	})
	return stats, err
}

// Close ends the trace. Again: nothing.
func (t *Trace) Close() error {
	return t.gate.close(func() error {
		raw.TraceDestroy(t.raw)
		return nil
	})
}
