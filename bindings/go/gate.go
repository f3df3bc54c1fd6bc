// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"cachalot.io/go/internal/raw"
)

// counter is a count of calls under way, on a cache line of its own.
type counter struct {
	calls atomic.Int64
	_     [56]byte
}

func (c *counter) leave() {
	c.calls.Add(-1)
}

// The states of a gate.
const (
	isOpen int32 = iota
	isClosing
	hasEnded
)

// gate lets calls of an object through until it has ended; closing waits for those that are inside. Closing may be
// refused, so calls that come meanwhile wait for how it ends: only what has ended is ErrClosed. Calls from within
// a callback of a call that is inside go on, since closing waits for that one. What many goroutines use at once has
// several counters, so that they do not wait for one cache line.
//
// Who is inside of a tenant may enter its allocator, and not the other way round: then each could wait for the other.
type gate struct {
	what     string
	state    atomic.Int32
	counters []counter
	// object is the number of an allocator or a tenant (raw.PlaceOf); 0 of others.
	object uintptr
	// inner is that of an allocator that ends with it, whose callbacks are its own; 0: there is none.
	inner uintptr

	closing sync.Mutex // held by who closes
}

// parallel is how many counters an allocator has: a power of two.
const parallel = 16

func newGate(what string, counters int) *gate {
	return &gate{what: what, counters: make([]counter, counters)}
}

// enter counts a call; whoever gets no error calls leave on the counter.
func (g *gate) enter() (*counter, error) {
	// Goroutines have their stacks in different places. The place may change, so who leaves keeps the counter.
	var here byte
	c := &g.counters[uintptr(unsafe.Pointer(&here))>>11&uintptr(len(g.counters)-1)]
	c.calls.Add(1)
	if g.state.Load() != isOpen {
		return g.enterUnlessEnded(c)
	}
	return c, nil
}

// enterUnlessEnded is enter for what is being closed, or was. The call is counted already.
func (g *gate) enterUnlessEnded(c *counter) (*counter, error) {
	if g.state.Load() == isClosing {
		// While the outer call is counted, this one may come and go.
		place := g.place()
		if place == raw.InOwnCallback {
			return c, nil
		}
		c.leave()
		if place == raw.InCallback {
			return nil, stateError("the " + g.what + " is being closed, which is not waited for from within a callback")
		}
		g.closing.Lock()
		defer g.closing.Unlock()
		c.calls.Add(1)
	}
	if g.state.Load() == hasEnded {
		c.leave()
		return nil, closedError(g.what)
	}
	return c, nil
}

// place says where the calling goroutine is, as the object sees it.
func (g *gate) place() raw.Place {
	place := raw.PlaceOf(g.object)
	if place == raw.InCallback && g.inner != 0 {
		return raw.PlaceOf(g.inner)
	}
	return place
}

// close ends the object once no call is inside; again: nothing. If end fails the object is open as before. From
// within a callback nothing is waited for: the call that led there may be the one that is inside.
func (g *gate) close(end func() error) error {
	if g.hasEnded() {
		return nil
	}
	place := g.place()
	if place == raw.InOwnCallback {
		return stateError("the " + g.what + " is in use: it cannot be closed from within a callback of its own")
	}
	if place == raw.Outside {
		g.closing.Lock()
	} else if !g.closing.TryLock() {
		return g.inUse()
	}
	defer g.closing.Unlock()
	if g.hasEnded() {
		return nil
	}
	if place != raw.Outside && g.busy() {
		return g.inUse()
	}
	verdict := isOpen
	defer func() { g.state.Store(verdict) }()
	g.state.Store(isClosing)
	if place == raw.Outside {
		g.wait()
	} else if g.busy() {
		return g.inUse()
	}
	if err := end(); err != nil {
		return err
	}
	verdict = hasEnded
	return nil
}

// hasEnded says whether it is closed for ever.
func (g *gate) hasEnded() bool {
	return g.state.Load() == hasEnded
}

// closedMark is what texts of an object that has ended say of it.
func (g *gate) closedMark() string {
	if g.hasEnded() {
		return ", closed"
	}
	return ""
}

func (g *gate) inUse() error {
	return stateError("the " + g.what + " is in use, which is not waited for from within a callback")
}

func (g *gate) busy() bool {
	for i := range g.counters {
		if g.counters[i].calls.Load() != 0 {
			return true
		}
	}
	return false
}

// wait returns when nobody is inside. Who comes now leaves at once, or before the call that it was made from, so each
// counter has to be seen at 0 only once.
func (g *gate) wait() {
	pause := time.Microsecond
	for i := range g.counters {
		for g.counters[i].calls.Load() != 0 {
			if pause < 16*time.Microsecond {
				runtime.Gosched()
			} else {
				time.Sleep(pause)
			}
			pause = min(2*pause, time.Millisecond)
		}
	}
}
