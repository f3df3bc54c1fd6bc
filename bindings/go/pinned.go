// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"

	"cachalot.io/go/internal/raw"
)

// PinnedBlock is pinned host memory, with its owner: freeing it gives it back to the cache. Copies between it and
// a device go on without the host. It keeps its allocator from being collected. Any goroutine may use and free it;
// the last use ends before Free begins, as with any memory.
//
// A device may read and write the memory while Go has it in hand. Until a copy is done that the host does not wait
// for, the program leaves those bytes alone that the copy writes, and does not change those that it reads: nothing
// here waits for a stream. A free waits neither: RecordStream keeps the block out of use until the copy is done.
type PinnedBlock struct {
	allocator *Allocator
	memory    unsafe.Pointer
	size      uint64
	gone      atomic.Bool
}

// AllocatePinned hands out pinned host memory of the drivers "cuda", "host" and "sim"; for the last two it is
// ordinary memory. size is in bytes, 0 gives an empty block. What the memory has in it is what its last owner
// left. The caller frees it, from any goroutine.
//
// Labels and tenants are those of the goroutine (LabelScope, Tenant.Scope), and count where pinned memory is
// cached as a device's (WithPinnedConfig); a tenant is one of PinnedAllocator then.
//
// ErrDriver where the driver refuses, also for want of memory, as in PyTorch; with WithPinnedConfig
// ErrOutOfHostMemory where memory or the limit is short. ErrInvalidArgument for a size that no memory can have.
// ErrNotSupported where the driver has no pinned memory.
func (a *Allocator) AllocatePinned(size uint64) (*PinnedBlock, error) {
	return a.ownPinned(size, func(r raw.Allocator) (unsafe.Pointer, error) { return raw.PinnedAllocate(r, size) })
}

// AllocatePinnedOnStream is AllocatePinned, made while current, one of the device, is the thread's current stream:
// by it captures into graphs take requests (Allocator.RoutePinned). AllocatePinned has the default stream of
// device 0.
func (a *Allocator) AllocatePinnedOnStream(size uint64, device int, current Stream) (*PinnedBlock, error) {
	return a.ownPinned(size, func(r raw.Allocator) (unsafe.Pointer, error) {
		return raw.PinnedAllocateOnStream(r, size, narrow(device), raw.Stream(current))
	})
}

func (a *Allocator) ownPinned(size uint64, allocate func(raw.Allocator) (unsafe.Pointer, error)) (*PinnedBlock, error) {
	if size > math.MaxInt {
		return nil, argumentError(fmt.Sprintf("no memory has %d bytes", size))
	}
	memory, err := ask(a, allocate)
	if err != nil {
		return nil, err
	}
	b := &PinnedBlock{allocator: a, memory: memory, size: size}
	b.watch()
	return b, nil
}

// watch lets the collector report a block that nobody freed.
func (b *PinnedBlock) watch() {
	if b.allocator.tracksBlocks && b.memory != nil {
		runtime.SetFinalizer(b, (*PinnedBlock).report)
	}
}

func (b *PinnedBlock) report() {
	reportUnlessEnded(b.allocator.gate, Leak{Kind: "pinned block", Address: b.Address(), Size: b.size})
}

// Allocator is whose block it is.
func (b *PinnedBlock) Allocator() *Allocator {
	return b.allocator
}

// Size is what was requested, in bytes.
func (b *PinnedBlock) Size() uint64 {
	return b.size
}

// Address is the block's first byte as drivers name it, a multiple of 512; 0 for a request of 0 bytes. It stays
// when the block is freed, and must not be used then.
func (b *PinnedBlock) Address() Address {
	return Address(uintptr(b.memory))
}

// Pointer is the block's first byte for code in C; nil for a request of 0 bytes. It is C's memory, so it may be
// kept there, until the block is freed.
func (b *PinnedBlock) Pointer() unsafe.Pointer {
	return b.memory
}

// BlockSize is what the block has in bytes, at least Size, since requests are rounded up. 0 for an empty block.
// ErrClosed once it is freed.
func (b *PinnedBlock) BlockSize() (uint64, error) {
	if err := b.check(); err != nil || b.memory == nil {
		return 0, err
	}
	return ask(b.allocator, func(r raw.Allocator) (uint64, error) { return raw.PinnedSize(r, b.memory) })
}

// Bytes is the memory, Size bytes of it; nil once the block is freed or its allocator is closed. The slice is C's
// memory, which neither moves nor is collected: it is good as long as the block is not freed, and must not be kept
// beyond that, which nothing checks.
func (b *PinnedBlock) Bytes() []byte {
	if b.check() != nil {
		return nil
	}
	c, err := b.allocator.gate.enter()
	if err != nil {
		return nil
	}
	defer c.leave()
	if b.memory == nil {
		return []byte{}
	}
	return unsafe.Slice((*byte)(b.memory), b.size)
}

// RecordStream says that a stream of a device uses the block: it is called behind each copy that the host does not
// wait for, before Free. After that the block stays out of use until the work is done that the stream had been
// given until the free. An empty block: nothing. ErrInvalidArgument for a device that the driver does not have.
func (b *PinnedBlock) RecordStream(device int, stream Stream) error {
	if err := b.check(); err != nil || b.memory == nil {
		return err
	}
	return b.allocator.do(func(r raw.Allocator) error {
		return raw.PinnedRecordStream(r, b.memory, narrow(device), raw.Stream(stream))
	})
}

func (b *PinnedBlock) check() error {
	if b.gone.Load() {
		return closedError("pinned block")
	}
	return nil
}

// Free gives the block back. Again, or after its allocator: nothing. It waits for no stream; see RecordStream.
// After an ErrDriver, which says that an event could not be recorded, the block is given up all the same; after
// any other error (from within a callback under a lock, say) it is there as before.
func (b *PinnedBlock) Free() error {
	if !b.gone.CompareAndSwap(false, true) {
		return nil
	}
	if b.allocator.tracksBlocks {
		runtime.SetFinalizer(b, nil)
	}
	err := b.allocator.do(func(r raw.Allocator) error { return raw.PinnedFree(r, b.memory) })
	switch {
	case isClosed(err):
		return nil
	case err != nil && !errors.Is(err, ErrDriver):
		b.watch() // Before anybody else can take it, who will end the watch.
		b.gone.Store(false)
	}
	return err
}

// String has the address.
func (b *PinnedBlock) String() string {
	state := ""
	if b.gone.Load() {
		state = ", freed"
	}
	return fmt.Sprintf("PinnedBlock(%#x, %d bytes%s)", uint64(b.Address()), b.size, state)
}

// EmptyPinnedCache gives cached pinned memory back to the driver, that of graphs' pools without users too.
func (a *Allocator) EmptyPinnedCache() error {
	return a.do(raw.PinnedEmptyCache)
}

// CallTimes are how long calls of the driver took, in microseconds.
type CallTimes struct {
	Count int64 `json:"count"`
	Total int64 `json:"total"`
	// Min and Max are 0 where there was no call.
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

// PinnedStats are the statistics of pinned memory, as torch.cuda.host_memory_stats has them. Bytes are those of
// blocks. Peaks of the active figures are sums of each size's own peak, as in PyTorch. Under Release2_11 the
// active figures are wrong, as there: a free without streams does not lower them.
type PinnedStats struct {
	// Allocations counts blocks that were obtained, cached ones too.
	Allocations    Stat `json:"allocations"`
	AllocatedBytes Stat `json:"allocated_bytes"`
	// ActiveRequests counts blocks handed out, or waiting for streams after their free.
	ActiveRequests Stat      `json:"active_requests"`
	ActiveBytes    Stat      `json:"active_bytes"`
	AllocateTimes  CallTimes `json:"allocate_times"`
	FreeTimes      CallTimes `json:"free_times"`
}

// PinnedStats are the statistics of pinned memory.
func (a *Allocator) PinnedStats() (PinnedStats, error) {
	s, err := ask(a, raw.PinnedGetStats)
	return PinnedStats{
		Allocations: Stat(s.Allocations), AllocatedBytes: Stat(s.AllocatedBytes), ActiveRequests: Stat(s.ActiveRequests),
		ActiveBytes: Stat(s.ActiveBytes), AllocateTimes: CallTimes(s.AllocateTimes), FreeTimes: CallTimes(s.FreeTimes),
	}, err
}

// ResetPinnedPeakStats sets every peak of pinned memory to its current value.
func (a *Allocator) ResetPinnedPeakStats() error {
	return a.do(raw.PinnedResetPeakStats)
}

// ResetPinnedAccumulatedStats sets all sums of pinned memory, and the times, to 0.
func (a *Allocator) ResetPinnedAccumulatedStats() error {
	return a.do(raw.PinnedResetAccumulatedStats)
}

// PinnedAllocator is the allocator that has the pinned memory where that is cached as a device's
// (WithPinnedConfig), the same one each time; nil without that. It is as one with one device, whose memory is the
// machine's: limits, trims, tenants, labels, statistics, reports, snapshots, history, recorders and metrics are as
// of any allocator. Pinned blocks come from the allocator that this one belongs to.
//
// ErrNotSupported for a pool with a source of its own, since what that gave would be taken for pinned memory.
//
// It is borrowed: it ends with that one, and its Close and CloseAll do nothing.
func (a *Allocator) PinnedAllocator() *Allocator {
	return a.pinned
}
