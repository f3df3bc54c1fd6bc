// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"math"

	"cachalot.io/go/internal/raw"
)

// Address is one in device memory (the value of a CUdeviceptr). 0 is no address.
type Address uint64

// Stream is the value of a cudaStream_t. 0 is the default stream; 2, the calling thread's own default stream, needs
// a goroutine that is locked to its thread (runtime.LockOSThread).
type Stream uint64

// StreamAll stands for every stream of the device's context, for callers that do not know which streams use a block.
// After RecordStream(StreamAll) a freed block stays out of use until all work is done that is queued by then. No such
// block may be freed while a stream of the context is captured.
const StreamAll = Stream(raw.STREAM_ALL)

// PoolID names a private pool: exactly one half is not 0. Pools of users are (0, k), those of graphs (k, 0). The
// zero value stands for the default pool.
type PoolID struct {
	First  uint64 `json:"first"`
	Second uint64 `json:"second"`
}

// Request is what a request may say. Zero means default in every field but Size.
type Request struct {
	// Size in bytes. 0 gives an empty block; 2^60 and more fail at once.
	Size uint64
	// Device is counted from 0.
	Device int
	// Stream will use the block: it is not waited for between blocks of one stream.
	Stream Stream
	// CurrentStream is the one that PyTorch would call the thread's current stream; nil: Stream. It matters during
	// captures.
	CurrentStream *Stream
	// At is where the block shall begin, if it is not 0: a multiple of 512 inside cached memory. ErrNotSupported
	// under Release2_11.
	At Address
}

func (r Request) raw() raw.Request {
	c := raw.Request{Size: r.Size, Device: narrow(r.Device), Stream: raw.Stream(r.Stream), At: raw.Address(r.At)}
	if r.CurrentStream != nil {
		c.HasCurrentStream, c.CurrentStream = 1, raw.Stream(*r.CurrentStream)
	}
	return c
}

// BlockInfo is what is known of a live block. Sizes in bytes.
type BlockInfo struct {
	Address   Address `json:"address"`
	Size      uint64  `json:"size"`
	Requested uint64  `json:"requested"`
	Stream    Stream  `json:"stream"`
	Pool      PoolID  `json:"pool"`
	Device    int     `json:"device"`
	// Uncached: the request went to the driver because caching is off.
	Uncached bool `json:"uncached"`
	// FromSource: the source of its pool gave its memory (PoolOptions.Source); else the driver did.
	FromSource bool `json:"from_source"`
}

// BaseAllocation is the segment that a block is a piece of.
type BaseAllocation struct {
	Address Address `json:"address"`
	Size    uint64  `json:"size"`
}

// DeviceTotals is where a device's memory is. Bytes.
type DeviceTotals struct {
	// Total is what the device has, Used what of it is in use, by whomever.
	Total uint64 `json:"total"`
	Used  uint64 `json:"used"`
	// UsedByProcess is what the management library says of this process; 0 where it does not know.
	UsedByProcess uint64 `json:"used_by_process"`
	// Reserved is what this allocator has obtained.
	Reserved uint64 `json:"reserved"`
	// Outside is Used - Reserved: other processes, contexts, libraries, other allocators.
	Outside uint64 `json:"outside"`
}

// Release is the PyTorch release whose decisions are made.
type Release int

// The releases.
const (
	// ReleaseDefault is that of the environment variable CACHALOT_RELEASE ("2.11", "2.15"), else 2.15.
	ReleaseDefault = Release(raw.RELEASE_DEFAULT)
	Release2_11    = Release(raw.RELEASE_2_11)
	Release2_15    = Release(raw.RELEASE_2_15)
)

// narrow is a number as C has it. One that does not fit becomes the nearest that does, which is no device, release or
// code of any driver.
func narrow[T ~int](number T) int32 {
	return int32(min(max(number, math.MinInt32), math.MaxInt32))
}

// flag is a bool as C has it.
func flag(on bool) int32 {
	if on {
		return 1
	}
	return 0
}

// text is a text that C may find missing: "" is NULL.
func text(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
