// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"context"

	"cachalot.io/go/internal/raw"
)

// Allocator is PyTorch's CUDA caching allocator over all devices of one driver. All methods may be called from any
// goroutine at the same time. Those with an error give one that is ErrClosed once the allocator is closed, and
// ErrInvalidState from within a callback that runs under a lock of the library; those without give 0, "" or false
// then. A device that the driver does not have is ErrInvalidArgument.
type Allocator struct {
	gate         *gate
	raw          raw.Allocator
	keep         raw.Keep
	isHost       bool
	tracksBlocks bool
	// owner is what ends an allocator that is borrowed, and has its gate.
	owner any
	// pinned has the pinned memory, where that is cached as a device's (WithPinnedConfig).
	pinned *Allocator
}

// do calls a function of the allocator that can fail.
func (a *Allocator) do(call func(raw.Allocator) error) error {
	c, err := a.gate.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	return wrap(call(a.raw))
}

// ask is do for a function with a result.
func ask[T any](a *Allocator, call func(raw.Allocator) (T, error)) (T, error) {
	c, err := a.gate.enter()
	if err != nil {
		var zero T
		return zero, err
	}
	defer c.leave()
	return wrap1(call(a.raw))
}

// look is do for a function that cannot fail: the zero value once the allocator is closed.
func look[T any](a *Allocator, call func(raw.Allocator) T) T {
	value, _ := ask(a, func(allocator raw.Allocator) (T, error) { return call(allocator), nil })
	return value
}

// Close gives all memory back and ends the allocator, once the calls of other goroutines that are under way have
// returned; calls that begin meanwhile wait for how it ends, and are ErrClosed if it was not refused. Again: nothing.
//
// ErrInvalidState while blocks are live (the message has their number), or from within a callback: then the
// allocator is there as before.
func (a *Allocator) Close() error {
	return a.end(raw.AllocatorDestroy)
}

// CloseAll is Close, but live blocks are freed too: for each device that has some, all its work is waited for
// first. Their addresses, and slices of Block.Bytes, must not be used afterwards.
func (a *Allocator) CloseAll() error {
	return a.end(raw.AllocatorDestroyAll)
}

func (a *Allocator) end(destroy func(raw.Allocator) error) error {
	if a.owner != nil {
		return nil
	}
	return a.gate.close(func() error {
		if err := destroy(a.raw); err != nil {
			return wrap(err)
		}
		a.keep.Release()
		return nil
	})
}

// DriverName is "cuda", "host", "sim" or "custom"; "pinned" of a PinnedAllocator.
func (a *Allocator) DriverName() string {
	return look(a, func(r raw.Allocator) string { return raw.DriverName(raw.AllocatorDriver(r)) })
}

// DeviceCount is how many devices the driver has.
func (a *Allocator) DeviceCount() int {
	return int(look(a, func(r raw.Allocator) int32 { return raw.DriverDeviceCount(raw.AllocatorDriver(r)) }))
}

// Release is the PyTorch release whose decisions are made.
func (a *Allocator) Release() Release {
	return Release(look(a, raw.AllocatorRelease))
}

// Backend is "native" or "cudaMallocAsync", as the option backend chose.
func (a *Allocator) Backend() string {
	return look(a, raw.AllocatorBackend)
}

// Handle is the cachalot_allocator* for programs that mix this package with code in C; it lives until the allocator
// is closed. 0 once it is.
func (a *Allocator) Handle() uintptr {
	return look(a, raw.NumberOf)
}

// Allocate hands out a block (PyTorch's tensor allocation). The caller closes it, from any goroutine.
//
// size is in bytes, 0 gives an empty block; device is counted from 0; stream will use the block: it is not waited
// for between blocks of one stream.
//
// ErrOutOfMemory with an *OutOfMemoryError; ErrDriver for an error that the driver reported now or left pending.
// After a failure the allocator is as before, but for its counters and for cached memory that was given back.
func (a *Allocator) Allocate(size uint64, device int, stream Stream) (*Block, error) {
	address, err := a.AllocateAddress(size, device, stream)
	if err != nil {
		return nil, err
	}
	return newBlock(a, address, size), nil
}

// AllocateWith hands out a block, with all that a request may say, and with what the context says of it: labels,
// a text for the history, a tenant (WithLabel, WithMetadata, WithTenant). The context's error, if it has one, comes
// before anything else; a request does not wait for it. Errors as of Allocate; ErrInvalidArgument for a tenant of
// another allocator.
func (a *Allocator) AllocateWith(ctx context.Context, request Request) (*Block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := request.raw()
	var address raw.Address
	var err error
	if s := scopeOf(ctx); s == nil {
		address, err = ask(a, func(allocator raw.Allocator) (raw.Address, error) { return raw.AllocateWith(allocator, &r) })
	} else {
		address, err = s.allocate(a, &r)
	}
	if err != nil {
		return nil, err
	}
	return newBlock(a, Address(address), request.Size), nil
}

// RecordStream says that work on another stream uses a block; see Block.RecordStream. 0 and foreign addresses are
// ignored, as in PyTorch.
func (a *Allocator) RecordStream(address Address, stream Stream) error {
	return a.do(func(r raw.Allocator) error {
		return raw.RecordStream(r, raw.Address(address), raw.Stream(stream))
	})
}

// RecordStreamOnStream is RecordStream, made while current is the thread's current stream (matters during captures).
func (a *Allocator) RecordStreamOnStream(address Address, stream, current Stream) error {
	return a.do(func(r raw.Allocator) error {
		return raw.RecordStreamOnStream(r, raw.Address(address), raw.Stream(stream), raw.Stream(current))
	})
}

// BlockAt is what is known of a live block. ErrInvalidArgument for any other address.
func (a *Allocator) BlockAt(address Address) (BlockInfo, error) {
	b, err := ask(a, func(r raw.Allocator) (raw.Block, error) { return raw.GetBlock(r, raw.Address(address)) })
	return BlockInfo{Address: Address(b.Address), Size: b.Size, Requested: b.Requested, Stream: Stream(b.Stream),
		Pool: PoolID(b.Pool), Device: int(b.Device), Uncached: b.Uncached != 0, FromSource: b.FromSource != 0}, err
}

// BaseAllocation is the segment of a live block. ErrInvalidState for blocks of expandable segments and of an
// allocator without caching, as in PyTorch.
func (a *Allocator) BaseAllocation(address Address) (base BaseAllocation, err error) {
	err = a.do(func(r raw.Allocator) error {
		first, size, err := raw.BaseAllocation(r, raw.Address(address))
		base = BaseAllocation{Address(first), size}
		return err
	})
	return base, err
}

// Check is the auditor: it walks everything and compares lists, indexes and counters; with DebugRedZones it also
// looks behind every live block. ErrInternal with the first thing that is wrong; ErrInvalidState with the first
// block that was written beyond its end.
func (a *Allocator) Check() error {
	return a.do(raw.Check)
}
