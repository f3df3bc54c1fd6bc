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

// gate lets calls of an object through until it is closed; closing waits for those that are inside. What many
// goroutines use at once has several counters, so that they do not wait for one cache line.
type gate struct {
	what     string
	closed   atomic.Bool
	counters []counter

	closing sync.Mutex
	ended   bool // under closing
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
	if g.closed.Load() {
		c.leave()
		return nil, closedError(g.what)
	}
	return c, nil
}

// close ends the object once no call is inside; again: nothing. If end fails the object is open as before. From
// within a callback nothing is waited for: the call that led there may be the one that is inside.
func (g *gate) close(end func() error) error {
	inCallback := raw.IsInCallback()
	if !inCallback {
		g.closing.Lock()
	} else if !g.closing.TryLock() {
		return g.inUse()
	}
	defer g.closing.Unlock()
	if g.ended {
		return nil
	}
	g.closed.Store(true)
	if inCallback && g.busy() {
		g.closed.Store(false)
		return g.inUse()
	}
	g.wait()
	if err := end(); err != nil {
		g.closed.Store(false)
		return err
	}
	g.ended = true
	return nil
}

func (g *gate) inUse() error {
	return stateError("the " + g.what + " is in use: it can not be closed from within a callback of its own")
}

func (g *gate) busy() bool {
	for i := range g.counters {
		if g.counters[i].calls.Load() != 0 {
			return true
		}
	}
	return false
}

// wait returns when nobody is inside. Who comes now leaves at once, so each counter has to be seen at 0 only once.
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
