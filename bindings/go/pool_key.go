// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"fmt"

	"cachalot.io/go/internal/raw"
)

// PoolKey is a pool by device and id. Its methods are the functions of the library, one by one, and the balance of
// creating, beginning, ending and releasing is the caller's; Pool keeps it by itself.
//
// A pool has a use count: creating or joining it and each beginning of a routing add 1, releasing takes 1 away; at 0
// its memory may be given back and it cannot be joined again.
type PoolKey struct {
	allocator *Allocator
	device    int
	id        PoolID
}

// PoolAt is a pool by device and id, which need not exist.
func (a *Allocator) PoolAt(device int, id PoolID) PoolKey {
	return PoolKey{a, device, id}
}

// Allocator is whose pool it is.
func (k PoolKey) Allocator() *Allocator { return k.allocator }

// Device is where it is.
func (k PoolKey) Device() int { return k.device }

// ID is its name.
func (k PoolKey) ID() PoolID { return k.id }

// String has both.
func (k PoolKey) String() string {
	return fmt.Sprintf("pool (%d, %d) of device %d", k.id.First, k.id.Second, k.device)
}

func (k PoolKey) do(call func(raw.Allocator, int32, raw.PoolId) error) error {
	return k.allocator.do(func(r raw.Allocator) error { return call(r, narrow(k.device), raw.PoolId(k.id)) })
}

// Create creates the pool, or joins the one that has this id. ErrInvalidState for a pool that was released, or for a
// source of a pool that exists; the use count is as before then.
func (k PoolKey) Create(options PoolOptions) error {
	return k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		return raw.PoolCreate(r, device, id, options.raw())
	})
}

// Begin creates or joins the pool and routes requests to it from now on. For RouteThisThread the caller locks its
// goroutine to the thread (runtime.LockOSThread). ErrInvalidState if the pool is being routed to already (its use
// count has been raised by then).
func (k PoolKey) Begin(route Route) error {
	return k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		return raw.PoolBegin(r, device, id, &route.c)
	})
}

// End ends the routing. The use count stays: Release for the beginning too.
func (k PoolKey) End() error {
	return k.do(raw.PoolEnd)
}

// EndOnStream is End, made while current is the thread's current stream.
func (k PoolKey) EndOnStream(current Stream) error {
	return k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		return raw.PoolEndOnStream(r, device, id, raw.Stream(current))
	})
}

// Release lowers the use count. ErrInvalidState for an unknown pool or a count below 0.
func (k PoolKey) Release() error {
	return k.do(raw.PoolRelease)
}

// Empty gives the cached memory of a pool with use count 0 back. Any other pool: nothing.
func (k PoolKey) Empty() error {
	return k.do(raw.PoolEmpty)
}

// EmptyOnStream is Empty, made while current is the thread's current stream.
func (k PoolKey) EmptyOnStream(current Stream) error {
	return k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		return raw.PoolEmptyOnStream(r, device, id, raw.Stream(current))
	})
}

// SetUseOnOOM lets the pool's cached blocks serve requests that would fail, or not. The pool need not exist.
func (k PoolKey) SetUseOnOOM(use bool) error {
	return k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		return raw.PoolSetUseOnOom(r, device, id, flag(use))
	})
}

// SetNoSplit: blocks of this pool are not split from now on. The pool need not exist.
func (k PoolKey) SetNoSplit() error {
	return k.do(raw.PoolSetNoSplit)
}

// SetPinned pins the pool's memory, present and future, or ends that; see PoolPinned. A pool that is in use keeps its
// memory anyway. ErrInvalidState for a pool that does not exist.
func (k PoolKey) SetPinned(pinned bool) error {
	return k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		return raw.PoolSetPinned(r, device, id, flag(pinned))
	})
}

// SetWholeBlocks makes each block of the pool a whole allocation of the driver from now on, as handles for other
// processes (CUDA IPC) need it. Cached blocks go back to the driver: the pool reserves at most a quarter more
// than was in use at its peak. A pool that a graph is captured into has to be pinned as well. ErrInvalidState for a pool
// that does not exist, or that has memory of another kind.
func (k PoolKey) SetWholeBlocks() error {
	return k.do(raw.PoolSetWholeBlocks)
}

// UseCount is the use count. ErrInvalidState for a pool that does not exist.
func (k PoolKey) UseCount() (count int, err error) {
	err = k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		found, err := raw.PoolUseCount(r, device, id)
		count = int(found)
		return err
	})
	return count, err
}

// HasLive says whether the pool's blocks that are handed out are exactly these. ErrInvalidArgument for an unknown
// pool.
func (k PoolKey) HasLive(addresses ...Address) (equal bool, err error) {
	err = k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		found, err := raw.PoolHasLive(r, device, id, rawAddresses(addresses))
		equal = found != 0
		return err
	})
	return equal, err
}
