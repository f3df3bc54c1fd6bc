// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"errors"
	"fmt"

	"cachalot.io/go/internal/raw"
)

// PinnedPoolKey is a pool of pinned memory by its id, as a graph has one. Its methods are the functions of the
// library, one by one, and the balance of beginning, ending and releasing is the caller's; Allocator.RoutePinned
// keeps it by itself. All are ErrNotSupported with WithPinnedConfig.
//
// Each beginning of a routing gives the pool a user, and Release takes one away. Without users its cached blocks
// go with the next EmptyPinnedCache.
type PinnedPoolKey struct {
	allocator *Allocator
	id        PoolID
}

// PinnedPoolAt is a pool of pinned memory by its id, which need not exist: the same as of the device's pool, or
// another.
func (a *Allocator) PinnedPoolAt(id PoolID) PinnedPoolKey {
	return PinnedPoolKey{a, id}
}

// Allocator is whose pool it is.
func (k PinnedPoolKey) Allocator() *Allocator { return k.allocator }

// ID is its name.
func (k PinnedPoolKey) ID() PoolID { return k.id }

// String has the id.
func (k PinnedPoolKey) String() string {
	return fmt.Sprintf("pool (%d, %d) of pinned memory", k.id.First, k.id.Second)
}

// Begin routes requests of pinned memory to the pool from now on; of several routings that take a request the
// oldest has it. device is the one that RouteCapture asks. A block of the pool that streams use is not handed out
// again once it is freed, because the graph may use it at each launch. For RouteThisThread the caller locks its
// goroutine to the thread (runtime.LockOSThread).
//
// ErrInvalidState if the pool is being routed to already (it has one user more by then), or was released.
func (k PinnedPoolKey) Begin(device int, route Route) error {
	return k.allocator.do(func(r raw.Allocator) error {
		return raw.PinnedPoolBegin(r, narrow(device), raw.PoolId(k.id), &route.c)
	})
}

// End ends the routing. The users stay. ErrInvalidState where there is no routing.
func (k PinnedPoolKey) End() error {
	return k.allocator.do(func(r raw.Allocator) error { return raw.PinnedPoolEnd(r, raw.PoolId(k.id)) })
}

// Release takes a user away. ErrInvalidState where there is none, ErrInvalidArgument for an unknown pool.
func (k PinnedPoolKey) Release() error {
	return k.allocator.do(func(r raw.Allocator) error { return raw.PinnedPoolRelease(r, raw.PoolId(k.id)) })
}

// PinnedPool is a user of a pool of pinned memory, a captured graph for example. Closing takes the user away.
type PinnedPool struct {
	key  PinnedPoolKey
	gate *gate
}

// Key is the pool by its id.
func (p *PinnedPool) Key() PinnedPoolKey {
	return p.key
}

// Close takes the user away. Again, or after its allocator: nothing.
func (p *PinnedPool) Close() error {
	return p.gate.close(unlessGone(p.key.Release))
}

// RoutePinned routes requests of pinned memory to a pool, as a capture into a graph does, until the function end
// is called; see PinnedPoolKey.Begin. The pool has a user until the PinnedPool is closed, with the graph. After an
// error the end can be tried again; once it has worked it does nothing.
//
//	pool, end, err := allocator.RoutePinned(device, id, cachalot.RouteCapture(capture))
//	if err != nil {
//		return err
//	}
//	// ... capture; then
//	err = end()
//	// ... when the graph is gone
//	err = pool.Close()
//
// RouteThisThread locks the goroutine to its thread until the end, which has to come from the same goroutine.
// ErrInvalidState if the pool is being routed to already, or was released; ErrInvalidArgument for a device that
// the driver does not have.
func (a *Allocator) RoutePinned(device int, id PoolID, route Route) (pool *PinnedPool, end func() error, err error) {
	key := a.PinnedPoolAt(id)
	begin := func() error { return key.begin(device, route) }
	end = unlessGone(key.End)
	if route.c.Kind == raw.ROUTE_THIS_THREAD {
		end, err = onThread(begin, end)
	} else {
		err = begin()
		end = untilItWorks("routing", end)
	}
	if err != nil {
		return nil, nil, err
	}
	pool = &PinnedPool{key: key, gate: newGate("pinned pool", 1)}
	watchWithin(pool, pool.gate, a.gate)
	return pool, end, nil
}

// begin is Begin, without a user more where it is refused. It is one entry, so that nobody closes the allocator
// between what it does.
func (k PinnedPoolKey) begin(device int, route Route) error {
	return k.allocator.do(func(r raw.Allocator) error {
		id := raw.PoolId(k.id)
		err := raw.PinnedPoolBegin(r, narrow(device), id, &route.c)
		if errors.Is(err, raw.ERROR_INVALID_STATE) {
			// The pool has one user more, as in PyTorch, or none at all. Under a lock this call is refused as
			// well.
			_ = raw.PinnedPoolRelease(r, id)
		}
		return err
	})
}
