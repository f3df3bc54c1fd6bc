// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"encoding/json"

	"cachalot.io/go/internal/raw"
)

// SnapshotOptions are what goes into a snapshot. Zero means default in every field.
type SnapshotOptions struct {
	// Pool not (0,0): only the segments of this private pool.
	Pool PoolID
	// WithoutHistory leaves the history out.
	WithoutHistory bool
}

// Snapshot is a picture of an allocator at one moment. It may outlive the allocator, and never changes; any
// goroutine may read it at any time.
type Snapshot struct {
	gate    *gate
	raw     raw.Snapshot
	devices int
}

// Snapshot takes one of all devices. Its cost grows with the number of blocks; it is an event of the history itself.
// The caller closes it.
func (a *Allocator) Snapshot(options SnapshotOptions) (*Snapshot, error) {
	c := raw.SnapshotOptions{Pool: raw.PoolId(options.Pool), WithoutHistory: flag(options.WithoutHistory)}
	s := &Snapshot{gate: newGate("snapshot", 1)}
	err := a.do(func(r raw.Allocator) (err error) {
		s.devices = int(raw.DriverDeviceCount(raw.AllocatorDriver(r)))
		s.raw, err = raw.SnapshotTake(r, &c)
		return err
	})
	if err != nil {
		return nil, err
	}
	watch(s, s.gate)
	return s, nil
}

func (s *Snapshot) do(call func(raw.Snapshot) error) error {
	c, err := s.gate.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	return wrap(call(s.raw))
}

// BlockState is that of a block in a snapshot.
type BlockState int

// The states.
const (
	BlockInactive    = BlockState(raw.BLOCK_INACTIVE)     // in the cache
	BlockAllocated   = BlockState(raw.BLOCK_ALLOCATED)    // handed out
	BlockPendingFree = BlockState(raw.BLOCK_PENDING_FREE) // freed, waiting for recorded streams
)

// String is PyTorch's name of the state.
func (s BlockState) String() string {
	switch s {
	case BlockInactive:
		return "inactive"
	case BlockAllocated:
		return "active_allocated"
	case BlockPendingFree:
		return "active_pending_free"
	}
	return unknown
}

// MarshalText is String, for JSON; of a number that is none the number itself.
func (s BlockState) MarshalText() ([]byte, error) { return nameOf(s) }

// UnmarshalText reads what MarshalText writes. ErrInvalidArgument for any other text.
func (s *BlockState) UnmarshalText(text []byte) error { return readName(s, text) }

// SegmentBlock is one block of a segment. Bytes.
type SegmentBlock struct {
	Address Address `json:"address"`
	Size    uint64  `json:"size"`
	// RequestedSize is what was last requested of it, also of an inactive block, as in PyTorch.
	RequestedSize uint64     `json:"requested_size"`
	State         BlockState `json:"state"`
	// Context is that of its hand-out; 0: none.
	Context uint64 `json:"context"`
}

// Segment is one segment, or one contiguous mapped range of an expandable segment. Bytes.
type Segment struct {
	Device int `json:"device"`
	// IsLarge: of a large pool.
	IsLarge   bool    `json:"is_large"`
	Address   Address `json:"address"`
	TotalSize uint64  `json:"total_size"`
	// Sums over its blocks: handed out; handed out or waiting; requested, of the latter.
	AllocatedSize uint64 `json:"allocated_size"`
	ActiveSize    uint64 `json:"active_size"`
	RequestedSize uint64 `json:"requested_size"`
	Stream        Stream `json:"stream"`
	Pool          PoolID `json:"pool"`
	IsExpandable  bool   `json:"is_expandable"`
	// Number is that of the segment in the order in which they were obtained (0 under 2.11).
	Number int64 `json:"number"`
	// Context is that of the call that obtained it, as far as its first block knows; 0: none.
	Context uint64 `json:"context"`
	// Blocks are by address.
	Blocks []SegmentBlock `json:"blocks"`
}

// Segments are all of them: devices in order, then by address.
func (s *Snapshot) Segments() (segments []Segment, err error) {
	err = s.do(func(r raw.Snapshot) error {
		count := raw.SnapshotSegmentCount(r)
		segments = make([]Segment, 0, count)
		for i := range count {
			segment, err := segmentOf(r, i)
			if err != nil {
				return err
			}
			segments = append(segments, segment)
		}
		return nil
	})
	return segments, err
}

func segmentOf(r raw.Snapshot, index uint64) (Segment, error) {
	row, err := raw.SnapshotSegment(r, index)
	if err != nil {
		return Segment{}, err
	}
	segment := Segment{
		Device: int(row.Device), IsLarge: row.IsLarge != 0, Address: Address(row.Address), TotalSize: row.TotalSize,
		AllocatedSize: row.AllocatedSize, ActiveSize: row.ActiveSize, RequestedSize: row.RequestedSize,
		Stream: Stream(row.Stream), Pool: PoolID(row.Pool), IsExpandable: row.IsExpandable != 0, Number: row.Number,
		Context: row.Context, Blocks: make([]SegmentBlock, row.BlockCount),
	}
	for i := range segment.Blocks {
		block, err := raw.SnapshotBlock(r, row.FirstBlock+uint64(i))
		if err != nil {
			return Segment{}, err
		}
		segment.Blocks[i] = SegmentBlock{Address(block.Address), block.Size, block.RequestedSize,
			BlockState(block.State), block.Context}
	}
	return segment, nil
}

// SegmentCount is how many segments there are; 0 once the snapshot is closed.
func (s *Snapshot) SegmentCount() int {
	count := uint64(0)
	_ = s.do(func(r raw.Snapshot) error { count = raw.SnapshotSegmentCount(r); return nil })
	return int(count)
}

// BlockCount is how many blocks all segments have; 0 once the snapshot is closed.
func (s *Snapshot) BlockCount() int {
	count := uint64(0)
	_ = s.do(func(r raw.Snapshot) error { count = raw.SnapshotBlockCount(r); return nil })
	return int(count)
}

// History is that of a device, oldest first.
func (s *Snapshot) History(device int) (entries []TraceEntry, err error) {
	err = s.do(func(r raw.Snapshot) error {
		count := raw.SnapshotEntryCount(r, narrow(device))
		entries = make([]TraceEntry, 0, count)
		for i := range count {
			entry, err := raw.SnapshotEntry(r, narrow(device), i)
			if err != nil {
				return err
			}
			entries = append(entries, traceEntryOf(entry))
		}
		return nil
	})
	return entries, err
}

// Settings are the options at the moment of the snapshot.
func (s *Snapshot) Settings() (settings Settings, err error) {
	err = s.do(func(r raw.Snapshot) error {
		found, err := raw.SnapshotSettings(r)
		settings = settingsOf(found)
		return err
	})
	return settings, err
}

// Options is the last option string then.
func (s *Snapshot) Options() (options Options, err error) {
	err = s.do(func(r raw.Snapshot) error { options = Options(raw.SnapshotConfig(r)); return nil })
	return options, err
}

// MarshalJSON has all of it as one object: "segments", "history" with a list for each device, "settings", "options".
func (s *Snapshot) MarshalJSON() ([]byte, error) {
	var all struct {
		Segments []Segment      `json:"segments"`
		History  [][]TraceEntry `json:"history"`
		Settings Settings       `json:"settings"`
		Options  Options        `json:"options"`
	}
	var err error
	if all.Segments, err = s.Segments(); err != nil {
		return nil, err
	}
	all.History = make([][]TraceEntry, s.devices)
	for device := range all.History {
		if all.History[device], err = s.History(device); err != nil {
			return nil, err
		}
	}
	if all.Settings, err = s.Settings(); err != nil {
		return nil, err
	}
	if all.Options, err = s.Options(); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// Close ends the snapshot. Again: nothing.
func (s *Snapshot) Close() error {
	return s.gate.close(func() error {
		raw.SnapshotDestroy(s.raw)
		return nil
	})
}
