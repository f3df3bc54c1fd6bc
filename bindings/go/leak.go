// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"fmt"
	"log"
	"runtime"
	"sync/atomic"

	"cachalot.io/go/internal/raw"
)

// Leak is an object that was collected before anybody closed it. Its memory stays what it is: nothing is freed by
// the collector, which does not know how scarce the memory of a device is, nor who uses an address still.
type Leak struct {
	// Kind is "allocator", "block", "driver", "opened block", "opened memory", "pin", "pinned block", "pinned pool",
	// "pool", "replay", "report", "shared block", "snapshot", "tenant" or "trace".
	Kind string
	// Address and Size are those of a block or a pinned block, else 0.
	Address Address
	Size    uint64
}

// String is a line for a log.
func (l Leak) String() string {
	switch l.Kind {
	case "block":
		return fmt.Sprintf("cachalot: the block of %d bytes at %#x was never closed", l.Size, uint64(l.Address))
	case "pinned block":
		return fmt.Sprintf("cachalot: the pinned block of %d bytes at %#x was never freed", l.Size, uint64(l.Address))
	}
	return "cachalot: a " + l.Kind + " was never closed"
}

var leakHandler atomic.Pointer[func(Leak)]

// OnLeak gets a Leak for each object that was collected before it was closed, on a goroutine of the runtime: it
// must not block. nil, the default, writes a line to the standard logger. Blocks are looked at only for allocators
// that were opened with TrackBlocks.
func OnLeak(handler func(Leak)) {
	if handler == nil {
		leakHandler.Store(nil)
	} else {
		leakHandler.Store(&handler)
	}
}

// OnPanic gets what a callback of the caller's panicked with, and the stack, on the goroutine of the call: a panic
// ends where Go returns to the library, which then sees what means failure, or nothing. nil, the default, writes
// both to the standard logger.
func OnPanic(handler func(value any, stack []byte)) {
	if handler == nil {
		raw.OnPanic.Store(nil)
	} else {
		raw.OnPanic.Store(&handler)
	}
}

func reportLeak(leak Leak) {
	if handler := leakHandler.Load(); handler != nil {
		(*handler)(leak)
		return
	}
	log.Print(leak)
}

// watch reports the owner, if it is collected before its gate was closed.
func watch[T any](owner *T, g *gate) {
	runtime.AddCleanup(owner, func(g *gate) { reportUnlessEnded(g, Leak{Kind: g.what}) }, g)
}

// watchWithin is watch for what ends with something else.
func watchWithin[T any](owner *T, g, within *gate) {
	runtime.AddCleanup(owner, func(g *gate) {
		if !g.hasEnded() {
			reportUnlessEnded(within, Leak{Kind: g.what})
		}
	}, g)
}

// reportUnlessEnded is for a goroutine of the runtime, which must not wait for how closing ends.
func reportUnlessEnded(g *gate, leak Leak) {
	switch g.state.Load() {
	case isOpen:
		reportLeak(leak)
	case isClosing:
		go func() {
			if c, err := g.enter(); err == nil {
				c.leave()
				reportLeak(leak)
			}
		}()
	}
}
