// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"errors"
	"math"
	"time"

	"cachalot.io/go/internal/raw"
)

// NoLimit is the memory limit of a device without one.
const NoLimit uint64 = math.MaxUint64

// EmptyCache gives all cached memory of all devices back to the driver, after waiting for blocks freed with recorded
// streams.
func (a *Allocator) EmptyCache() error {
	return a.do(raw.EmptyCache)
}

// EmptyDeviceCache is EmptyCache for one device.
func (a *Allocator) EmptyDeviceCache(device int) error {
	return a.do(func(r raw.Allocator) error { return raw.EmptyDeviceCache(r, narrow(device)) })
}

// ReleaseContext lets go of a device's context, which the caller is about to end: of the device's cached memory, of
// cached pinned memory, and of all events. What is live on the device ends with the context. The next call for the
// device takes the context that there is then.
func (a *Allocator) ReleaseContext(device int) error {
	return a.do(func(r raw.Allocator) error { return raw.ReleaseContext(r, narrow(device)) })
}

// EmptyDeviceCacheOnStream is EmptyDeviceCache, made while current is the thread's current stream.
func (a *Allocator) EmptyDeviceCacheOnStream(device int, current Stream) error {
	return a.do(func(r raw.Allocator) error {
		return raw.EmptyDeviceCacheOnStream(r, narrow(device), raw.Stream(current))
	})
}

// EmptyCacheAfter calls what allocates, and then gives all cached memory back to the driver, also where it panics: for
// a phase whose sizes nobody needs again. The error is that of the call, joined with that of emptying. A cache that is
// closed by then is empty.
//
//	err := allocator.EmptyCacheAfter(func() error { return warmUp(allocator) })
func (a *Allocator) EmptyCacheAfter(phase func() error) (err error) {
	defer func() {
		if failed := a.EmptyCache(); !isClosed(failed) {
			err = errors.Join(err, failed)
		}
	}()
	return phase()
}

// Trim gives idle memory back to the driver, longest idle first, until no more than keepBytes are reserved (live
// blocks included; 0: as few as possible) or nothing has been idle for minIdle (0: whatever is free goes). Memory
// counts as idle from the first trim on that sees it free. released is what was given back in bytes, also where the
// driver refused the rest (ErrDriver). ErrInvalidArgument for a negative time; ErrNotSupported for an idle time under
// backend:cudaMallocAsync.
func (a *Allocator) Trim(device int, keepBytes uint64, minIdle time.Duration) (released uint64, err error) {
	if err := checkTimes(minIdle); err != nil {
		return 0, err
	}
	err = a.do(func(r raw.Allocator) error {
		released, err = raw.Trim(r, narrow(device), keepBytes, uint64(minIdle))
		return err
	})
	return released, err
}

// TrimAt is Trim by the caller's clock, for simulations and tests: now is the time of a clock that never goes back.
func (a *Allocator) TrimAt(device int, keepBytes uint64, minIdle, now time.Duration) (released uint64, err error) {
	if err := checkTimes(minIdle, now); err != nil {
		return 0, err
	}
	err = a.do(func(r raw.Allocator) error {
		released, err = raw.TrimAt(r, narrow(device), keepBytes, uint64(minIdle), uint64(now))
		return err
	})
	return released, err
}

// checkTimes refuses times that C cannot say: a deadline that has passed would be 0, which is another thing.
func checkTimes(times ...time.Duration) error {
	for _, each := range times {
		if each < 0 {
			return argumentError("a time is negative: " + each.String())
		}
	}
	return nil
}

// LargestBlock is the largest cached block in bytes. atLeast is where to start from; 0: the device's free memory
// counts as one block. Under backend:cudaMallocAsync it is the largest that can be allocated, by trial.
func (a *Allocator) LargestBlock(device int, atLeast uint64) (uint64, error) {
	return ask(a, func(r raw.Allocator) (uint64, error) { return raw.LargestBlock(r, narrow(device), atLeast) })
}

// LargestBlockOnStream is LargestBlock, made while current is the thread's current stream (matters to
// backend:cudaMallocAsync only).
func (a *Allocator) LargestBlockOnStream(device int, atLeast uint64, current Stream) (uint64, error) {
	return ask(a, func(r raw.Allocator) (uint64, error) {
		return raw.LargestBlockOnStream(r, narrow(device), atLeast, raw.Stream(current))
	})
}

// SetCachingEnabled switches caching off or on for later requests. A block is freed the way it was made.
func (a *Allocator) SetCachingEnabled(enabled bool) error {
	return a.do(func(r raw.Allocator) error { return raw.SetCachingEnabled(r, flag(enabled)) })
}

// IsCachingEnabled says whether requests are cached.
func (a *Allocator) IsCachingEnabled() bool {
	return look(a, raw.IsCachingEnabled) != 0
}

// SetMemoryFraction limits what the allocator may obtain from a device to a share of its memory, 0 to 1; 1: no
// limit. It releases nothing. ErrInvalidArgument for any other number.
func (a *Allocator) SetMemoryFraction(device int, fraction float64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetMemoryFraction(r, narrow(device), fraction) })
}

// MemoryFraction is the limit in force over the device's memory; 1 without a limit.
func (a *Allocator) MemoryFraction(device int) (float64, error) {
	return ask(a, func(r raw.Allocator) (float64, error) { return raw.MemoryFraction(r, narrow(device)) })
}

// SetMemoryLimit is the same limit in bytes; NoLimit: none.
func (a *Allocator) SetMemoryLimit(device int, bytes uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetMemoryLimit(r, narrow(device), bytes) })
}

// MemoryLimit is the limit in force in bytes; NoLimit: none.
func (a *Allocator) MemoryLimit(device int) (uint64, error) {
	return ask(a, func(r raw.Allocator) (uint64, error) { return raw.MemoryLimit(r, narrow(device)) })
}

// EnablePeerAccess lets device use peer's memory, that of its expandable segments included, present and future.
func (a *Allocator) EnablePeerAccess(device, peer int) error {
	return a.do(func(r raw.Allocator) error { return raw.EnablePeerAccess(r, narrow(device), narrow(peer)) })
}

// Copy copies size bytes between devices, or within one, on a stream of toDevice; it does not wait. The devices need
// no access to each other. An address may also be one of pinned host memory.
func (a *Allocator) Copy(to Address, toDevice int, from Address, fromDevice int, size uint64, stream Stream) error {
	return a.do(func(r raw.Allocator) error {
		return raw.Copy(r, raw.Address(to), narrow(toDevice), raw.Address(from), narrow(fromDevice), size,
			raw.Stream(stream))
	})
}

// DeviceTotals is where a device's memory is.
func (a *Allocator) DeviceTotals(device int) (DeviceTotals, error) {
	totals, err := ask(a, func(r raw.Allocator) (raw.DeviceTotals, error) {
		return raw.GetDeviceTotals(r, narrow(device))
	})
	return DeviceTotals(totals), err
}
