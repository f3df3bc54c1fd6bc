// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"strings"
	"time"

	"cachalot.io/go/internal/raw"
)

// Action is what an entry of the history says.
type Action int

// The actions.
const (
	ActionAlloc         = Action(raw.ACTION_ALLOC)          // a block was handed out; Size is what was requested
	ActionFreeRequested = Action(raw.ACTION_FREE_REQUESTED) // the caller freed it
	ActionFreeCompleted = Action(raw.ACTION_FREE_COMPLETED) // it can be reused
	ActionSegmentAlloc  = Action(raw.ACTION_SEGMENT_ALLOC)  // a segment was obtained
	ActionSegmentFree   = Action(raw.ACTION_SEGMENT_FREE)   // one is about to be given back
	ActionSegmentMap    = Action(raw.ACTION_SEGMENT_MAP)    // a range of an expandable segment was backed by memory
	ActionSegmentUnmap  = Action(raw.ACTION_SEGMENT_UNMAP)  // its memory was given back
	ActionSnapshot      = Action(raw.ACTION_SNAPSHOT)       // a snapshot was taken; Size is its active bytes
	ActionOOM           = Action(raw.ACTION_OOM)            // a request failed; Address is the device's free bytes
	ActionAnnotate      = Action(raw.ACTION_ANNOTATE)       // Allocator.Annotate (since 2.14)
)

// Actions in recordings of programs, which no history has.
const (
	ActionLiveAtBegin   = Action(raw.ACTION_LIVE_AT_BEGIN)  // a block that was live when the recording began
	ActionOtherAlloc    = Action(raw.ACTION_OTHER_ALLOC)    // memory outside of any cache was obtained
	ActionOtherFree     = Action(raw.ACTION_OTHER_FREE)     // it was given back
	ActionCallEnd       = Action(raw.ACTION_CALL_END)       // a driver's call that gave memory back has ended
	ActionContextEnd    = Action(raw.ACTION_CONTEXT_END)    // the device's primary context ended, and all its blocks
	ActionStreamCreate  = Action(raw.ACTION_STREAM_CREATE)  // the program made a stream
	ActionStreamDestroy = Action(raw.ACTION_STREAM_DESTROY) // it destroyed one
	ActionCaptureBegin  = Action(raw.ACTION_CAPTURE_BEGIN)  // the program began to capture a stream
	ActionCaptureEnd    = Action(raw.ACTION_CAPTURE_END)    // the capture ended
	ActionStreamWait    = Action(raw.ACTION_STREAM_WAIT)    // the program has waited for a stream
	ActionContextWait   = Action(raw.ACTION_CONTEXT_WAIT)   // it has waited for all work of the context
	ActionExport        = Action(raw.ACTION_EXPORT)         // it gave a block to others by a handle
	ActionRecordingEnd  = Action(raw.ACTION_RECORDING_END)  // the recording ended; Size is how many events were lost
)

// String is PyTorch's name of the action, "segment_alloc"; "unknown" for a number that is none.
func (a Action) String() string {
	return raw.ActionName(narrow(a))
}

// MarshalText is String, for JSON; of a number that is none the number itself.
func (a Action) MarshalText() ([]byte, error) { return nameOf(a) }

// UnmarshalText reads what MarshalText writes. ErrInvalidArgument for any other text.
func (a *Action) UnmarshalText(text []byte) error { return readName(a, text) }

// TraceEntry is one event.
type TraceEntry struct {
	Action  Action  `json:"action"`
	Device  int     `json:"device"`
	Address Address `json:"address"`
	// Size in bytes.
	Size   uint64 `json:"size"`
	Stream Stream `json:"stream"`
	Pool   PoolID `json:"pool"`
	// Context is the one that is kept for it; 0: none.
	Context uint64 `json:"context"`
	// TimeUS is in microseconds since 1970.
	TimeUS int64 `json:"time_us"`
	// Metadata is the text of who asked (WithMetadata, MetadataScope), or that of an annotation.
	Metadata string `json:"metadata"`
	// InternalMetadata is the allocator's own text (since 2.15).
	InternalMetadata string `json:"internal_metadata"`
}

// Time is TimeUS as a time.
func (e TraceEntry) Time() time.Time {
	return time.UnixMicro(e.TimeUS)
}

func traceEntryOf(e raw.TraceEntry) TraceEntry {
	return TraceEntry{
		Action: Action(e.Action), Device: int(e.Device), Address: Address(e.Address), Size: e.Size,
		Stream: Stream(e.Stream), Pool: PoolID(e.Pool), Context: e.Context, TimeUS: e.TimeUs, Metadata: e.Metadata,
		InternalMetadata: e.InternalMetadata,
	}
}

// ContextLevel is for what contexts are kept; each level includes those before.
type ContextLevel int

// The levels.
const (
	ContextsNever = ContextLevel(raw.CONTEXT_LEVEL_NEVER)
	ContextsState = ContextLevel(raw.CONTEXT_LEVEL_STATE) // live blocks and segments
	ContextsAlloc = ContextLevel(raw.CONTEXT_LEVEL_ALLOC) // entries too: that of the hand-out
	ContextsAll   = ContextLevel(raw.CONTEXT_LEVEL_ALL)   // and frees have their own
)

// HistoryOptions are how history is recorded. Zero means default in every field.
type HistoryOptions struct {
	// Enabled: entries are kept in a ring; else none are, and those that there are go.
	Enabled bool
	// Contexts is for what contexts are kept.
	Contexts ContextLevel
	// MaxEntries is what the ring of a device holds; 0 counts as 1.
	MaxEntries uint64
	// Clear drops older entries first.
	Clear bool
	// SkipActions are names of actions that are not put into the ring.
	SkipActions []string
}

// RecordHistory starts, changes or stops the recording of history on all devices. It slows every call down: all
// goroutines share one order of events. ErrInvalidArgument for an unknown name of an action (as in PyTorch recording
// is on by then and nothing is skipped).
func (a *Allocator) RecordHistory(options HistoryOptions) error {
	skipped := strings.Join(options.SkipActions, ",")
	if err := checkText(skipped); err != nil {
		return err
	}
	c := raw.HistoryOptions{Enabled: flag(options.Enabled), Context: narrow(options.Contexts),
		MaxEntries: options.MaxEntries, Clear: flag(options.Clear), SkipActions: text(skipped)}
	return a.do(func(r raw.Allocator) error { return raw.RecordHistory(r, &c) })
}

// History is that of a device, by a snapshot, oldest first.
func (a *Allocator) History(device int) ([]TraceEntry, error) {
	snapshot, err := a.Snapshot(SnapshotOptions{})
	if err != nil {
		return nil, err
	}
	entries, err := snapshot.History(device)
	_ = snapshot.Close()
	return entries, err
}

// ContextOf is the context that a live block keeps; 0 for none and for any other address. ErrNotSupported under
// Release2_11.
func (a *Allocator) ContextOf(address Address) (uint64, error) {
	return ask(a, func(r raw.Allocator) (uint64, error) { return raw.ContextOf(r, raw.Address(address)) })
}

// ContextText is what a context means, one frame a line, innermost first. 0 gives "".
func (a *Allocator) ContextText(context uint64) (string, error) {
	return ask(a, func(r raw.Allocator) (string, error) { return raw.ContextText(r, context) })
}

// Annotate adds an entry with a text for a live block. ErrNotSupported under Release2_11.
func (a *Allocator) Annotate(address Address, text string) error {
	if err := checkText(text); err != nil {
		return err
	}
	return a.do(func(r raw.Allocator) error { return raw.Annotate(r, raw.Address(address), text) })
}
