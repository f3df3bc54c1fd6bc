// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"errors"

	"cachalot.io/go/internal/raw"
)

// PoolFlags are properties of a pool, to be added up.
type PoolFlags uint32

// The properties.
const (
	PoolUseOnOOM = PoolFlags(raw.POOL_USE_ON_OOM) // its cached blocks serve requests of others that would fail
	PoolNoSplit  = PoolFlags(raw.POOL_NO_SPLIT)   // its blocks are never split
	// PoolPinned: its memory stays where it is, also once it was released, for memory that others have registered.
	PoolPinned = PoolFlags(raw.POOL_PINNED)
	// PoolWholeBlocks: each of its blocks is an allocation of the driver; see PoolKey.SetWholeBlocks.
	PoolWholeBlocks = PoolFlags(raw.POOL_WHOLE_BLOCKS)
)

// PoolSource is a pool's own source of segments. Its functions are called under a lock: calls of any allocator from
// within are refused.
type PoolSource struct {
	// Allocate gives size bytes, or 0 for none, which counts as out of memory. stream is the thread's current one. What
	// no memory can be (not at a multiple of 512, over a live segment, ending above 2^63) is freed again, and the
	// request is refused as ErrInvalidState.
	Allocate func(size uint64, device int, stream Stream) Address
	// Free takes back what Allocate gave, with the same size, device and stream.
	Free func(address Address, size uint64, device int, stream Stream)
}

// PoolOptions are how a pool is made. Zero means default in every field.
type PoolOptions struct {
	Flags PoolFlags
	// Source nil: segments come from the driver. Only for a pool that is new.
	Source *PoolSource
}

func (o PoolOptions) raw() *raw.PoolOptions {
	c := &raw.PoolOptions{Flags: uint32(o.Flags)}
	if source := o.Source; source != nil {
		c.Source = &raw.PoolSource{}
		if source.Allocate != nil {
			c.Source.Allocate = func(size uint64, device int32, stream raw.Stream) raw.Address {
				return raw.Address(source.Allocate(size, int(device), Stream(stream)))
			}
		}
		if source.Free != nil {
			c.Source.Free = func(address raw.Address, size uint64, device int32, stream raw.Stream) {
				source.Free(Address(address), size, int(device), Stream(stream))
			}
		}
	}
	return c
}

// Route says which requests go to a pool while it is routed to.
type Route struct {
	c raw.PoolRoute
}

// RouteThisThread takes requests of the goroutine that begins the routing, which is locked to its thread until it
// ends.
func RouteThisThread() Route { return Route{raw.PoolRoute{Kind: raw.ROUTE_THIS_THREAD}} }

// RouteAll takes requests of every goroutine and stream.
func RouteAll() Route { return Route{raw.PoolRoute{Kind: raw.ROUTE_ALL}} }

// RouteNone takes no requests.
func RouteNone() Route { return Route{raw.PoolRoute{Kind: raw.ROUTE_NONE}} }

// RouteStream takes requests for one stream.
func RouteStream(stream Stream) Route {
	return Route{raw.PoolRoute{Kind: raw.ROUTE_STREAM, Stream: raw.Stream(stream)}}
}

// RouteCapture takes requests for streams that are captured under one id.
func RouteCapture(id uint64) Route {
	return Route{raw.PoolRoute{Kind: raw.ROUTE_CAPTURE, CaptureId: id}}
}

// RoutePredicate takes requests for streams that a function accepts. It is called under a lock: calls of any
// allocator from within are refused. nil is ErrInvalidArgument where the route is used.
func RoutePredicate(takes func(stream Stream) bool) Route {
	route := Route{raw.PoolRoute{Kind: raw.ROUTE_PREDICATE}}
	if takes != nil {
		route.c.Predicate = func(stream raw.Stream) int32 { return flag(takes(Stream(stream))) }
	}
	return route
}

// NewPoolID is an id that the allocator has not given yet: (0, k), or (k, 0) for a graph.
func (a *Allocator) NewPoolID(forGraph bool) (PoolID, error) {
	id, err := ask(a, func(r raw.Allocator) (raw.PoolId, error) { return raw.PoolNewId(r, flag(forGraph)) })
	return PoolID(id), err
}

// CreatePool makes a private pool of a device under a new id: memory set apart for a graph or a user. The caller
// closes it.
func (a *Allocator) CreatePool(device int, options PoolOptions) (*Pool, error) {
	id, err := a.NewPoolID(false)
	if err != nil {
		return nil, err
	}
	return a.JoinPool(device, id, options)
}

// JoinPool joins the pool that has this id, or creates it. The caller closes it. ErrInvalidState for a pool that was
// released, or for a source of a pool that exists.
func (a *Allocator) JoinPool(device int, id PoolID, options PoolOptions) (*Pool, error) {
	key := a.PoolAt(device, id)
	if err := key.Create(options); err != nil {
		return nil, err // A refused one has not raised the use count.
	}
	p := &Pool{key: key, gate: newGate("pool", 1)}
	watchWithin(p, p.gate, a.gate)
	return p, nil
}

// Pool is a private pool. Closing releases it; then its memory goes back with the cache, once its blocks have been
// freed.
type Pool struct {
	key  PoolKey
	gate *gate
}

// Key is the pool by device and id, for all that can be asked of it and told to it.
func (p *Pool) Key() PoolKey {
	return p.key
}

// Route routes requests to the pool until the function that it gives is called; of several routings the newest that
// takes a request has it. After an error the end can be tried again; once it has worked it does nothing.
//
//	end, err := pool.Route(cachalot.RouteStream(stream))
//	if err != nil {
//		return err
//	}
//	defer end()
//
// RouteThisThread locks the goroutine to its thread until the end, which has to come from the same goroutine.
// ErrInvalidState if the pool is being routed to already; ErrClosed if it is closed.
func (p *Pool) Route(route Route) (end func() error, err error) {
	c, err := p.gate.enter()
	if err != nil {
		return nil, err
	}
	defer c.leave()
	begin := func() error { return p.begin(route) }
	endRouting := unlessGone(p.key.End)
	if route.c.Kind == raw.ROUTE_THIS_THREAD {
		endRouting, err = onThread(begin, endRouting)
	} else {
		err = begin()
		endRouting = untilItWorks("routing", endRouting)
	}
	if err != nil {
		return nil, err
	}
	release := untilItWorks("routing", unlessGone(p.key.Release))
	return func() error {
		if err := endRouting(); err != nil {
			return err
		}
		return release()
	}, nil
}

// begin is one entry, so that nobody closes the allocator between what it does.
func (p *Pool) begin(route Route) error {
	return p.key.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		err := raw.PoolBegin(r, device, id, &route.c)
		if errors.Is(err, raw.ERROR_INVALID_STATE) {
			// As in PyTorch the use count was raised, unless the pool was released: then it stays at 0. Both calls
			// here are refused where the first one was, under a lock.
			if count, countErr := raw.PoolUseCount(r, device, id); countErr == nil && count > 0 {
				_ = raw.PoolRelease(r, device, id)
			}
		}
		return err
	})
}

// unlessGone is for what has ended with its allocator.
func unlessGone(end func() error) func() error {
	return func() error {
		if err := end(); !isClosed(err) {
			return err
		}
		return nil
	}
}

// untilItWorks can be called again after a failure, and does nothing once it has worked.
func untilItWorks(what string, end func() error) func() error {
	g := newGate(what, 1)
	return func() error { return g.close(end) }
}

// Close releases the pool. Again, or after its allocator: nothing.
func (p *Pool) Close() error {
	return p.gate.close(unlessGone(p.key.Release))
}

// CaptureBegin marks the begin of a graph capture on a device: until the mark is ended by the function that this
// gives, calls on captured streams make no driver call that a capture forbids. Under Release2_11 routing does that,
// and marks change nothing.
func (a *Allocator) CaptureBegin(device int) (end func() error, err error) {
	err = a.do(func(r raw.Allocator) error { return raw.CaptureBegin(r, narrow(device)) })
	if err != nil {
		return nil, err
	}
	return untilItWorks("capture", unlessGone(func() error { return a.CaptureEnd(device) })), nil
}

// CaptureEnd ends a mark of CaptureBegin. ErrInvalidState without one.
func (a *Allocator) CaptureEnd(device int) error {
	return a.do(func(r raw.Allocator) error { return raw.CaptureEnd(r, narrow(device)) })
}
