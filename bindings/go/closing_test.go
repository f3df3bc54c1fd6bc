// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cachalot.io/go"
)

// Closing that is refused, and what comes meanwhile.

func TestEndsThatMeetACloseThatIsRefusedEndTheirThings(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	a := over(t, device.Driver)
	held, freed := block(t, a, 30*mib, 0), block(t, a, 40*mib, 0)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	endRoute := need[func() error](t)(pool.Route(cachalot.RouteNone()))
	endCapture := need[func() error](t)(a.CaptureBegin(0))
	var calls atomic.Int64
	detach := need[func() error](t)(a.OnFreeMemory(func(int, uint64) bool { calls.Add(1); return false }))
	works(t, device.SetLatency(cachalot.SimAllocate, 200*time.Millisecond))
	allocated, refused := make(chan *cachalot.Block), make(chan error)
	go func() {
		b, err := a.Allocate(100*mib, 0, 0)
		tried(t, err)
		allocated <- b
	}()
	time.Sleep(50 * time.Millisecond)
	go func() { refused <- a.Close() }() // Waits for the allocation.
	time.Sleep(50 * time.Millisecond)
	works(t, freed.Close(), endRoute(), pool.Close(), detach(), endCapture())
	if err := <-refused; !errors.Is(err, cachalot.ErrInvalidState) || errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
	works(t, (<-allocated).Close(), held.Close(), device.SetLatency(cachalot.SimAllocate, 0))
	same(t, "allocated", a.MemoryAllocated(0), 0)
	same(t, "uses of the pool", need[int](t)(pool.Key().UseCount()), 0)
	before := calls.Load()
	works(t, block(t, a, 200*mib, 0).Close())
	same(t, "calls of what was detached", calls.Load(), before)
	if err := a.CaptureEnd(0); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Errorf("the mark is there still: %v", err)
	}
	works(t, a.Close())
}

func TestACallbackGoesOnWhileItsAllocatorIsBeingClosed(t *testing.T) {
	a := small(t)
	room, held := block(t, a, 60*mib, 0), block(t, a, 512, 0)
	inside := make(chan struct{})
	attached(t)(a.OnFreeMemory(func(_ int, size uint64) bool {
		if size < 60*mib || room == nil {
			return false
		}
		close(inside)
		time.Sleep(50 * time.Millisecond) // Until it is being closed.
		tried(t, room.Close())
		room = nil
		return true
	}))
	refused := make(chan error)
	go func() {
		<-inside
		refused <- a.Close()
	}()
	b := block(t, a, 60*mib, 0) // Needs what the callback frees.
	if err := <-refused; !errors.Is(err, cachalot.ErrInvalidState) {
		t.Error(err)
	}
	works(t, b.Close(), held.Close(), a.Close())
}

func TestAnotherAllocatorsCallbackMayTryAgainWhatMeetsAClose(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	a, other := small(t), over(t, device.Driver)
	held, freed := block(t, other, mib, 0), block(t, other, 30*mib, 0)
	works(t, device.SetLatency(cachalot.SimAllocate, 200*time.Millisecond))
	done := make(chan struct{}, 2)
	go func() {
		b, err := other.Allocate(100*mib, 0, 0)
		tried(t, err, b.Close())
		done <- struct{}{}
	}()
	time.Sleep(50 * time.Millisecond)
	go func() {
		if err := other.Close(); !errors.Is(err, cachalot.ErrInvalidState) {
			t.Error(err)
		}
		done <- struct{}{}
	}()
	time.Sleep(50 * time.Millisecond)
	attached(t)(a.OnFreeMemory(func(int, uint64) bool {
		if err := freed.Close(); !errors.Is(err, cachalot.ErrInvalidState) || errors.Is(err, cachalot.ErrClosed) {
			t.Error(err)
		}
		return false
	}))
	works(t, block(t, a, mib, 0).Close())
	<-done
	<-done
	works(t, freed.Close(), held.Close())
	same(t, "allocated", other.MemoryAllocated(0), 0)
}

func TestACloseFromWithinACallbackDisturbsNobody(t *testing.T) {
	a := small(t)
	var stop atomic.Bool
	attached(t)(a.OnFreeMemory(func(int, uint64) bool {
		for !stop.Load() {
			if err := a.CloseAll(); !errors.Is(err, cachalot.ErrInvalidState) || errors.Is(err, cachalot.ErrClosed) {
				t.Error(err)
			}
		}
		return false
	}))
	done := make(chan error)
	go func() {
		_, err := a.AllocateAddress(50*mib, 0, 0)
		done <- err
	}()
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		if _, err := a.Stats(0); err != nil {
			t.Error(err)
			break
		}
	}
	stop.Store(true)
	works(t, <-done)
}

func TestClosesOfATenantAndItsAllocatorDoNotWaitForEachOther(t *testing.T) {
	a := simulated(t)
	tenant := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{}))
	held := need[*cachalot.Block](t)(tenant.Allocate(mib, 0, 0))
	ctx := cachalot.WithTenant(context.Background(), tenant)
	var stop atomic.Bool
	time.AfterFunc(200*time.Millisecond, func() { stop.Store(true) })
	together(4, func(number int) {
		for !stop.Load() {
			switch number {
			case 0, 1:
				if err := []func() error{a.Close, tenant.Close}[number](); !errors.Is(err, cachalot.ErrInvalidState) {
					t.Error(err)
				}
			case 2:
				b, err := a.AllocateWith(ctx, cachalot.Request{Size: 512})
				tried(t, err, b.Close())
			default:
				b, err := tenant.Allocate(512, 0, 0)
				tried(t, err, b.Close())
			}
		}
	})
	works(t, held.Close(), tenant.Close(), a.Close())
}

func TestAFreeThatFailsForManyGoroutinesLeavesOneWatch(t *testing.T) {
	cachalot.OnLeak(func(cachalot.Leak) {})
	t.Cleanup(func() { cachalot.OnLeak(nil) })
	a := simulated(t, cachalot.TrackBlocks())
	for range 5000 {
		b := block(t, a, 512, 0)
		works(t, a.Free(b.Address()))
		together(4, func(int) {
			if err := b.Close(); err != nil && !errors.Is(err, cachalot.ErrInvalidArgument) {
				t.Error(err)
			}
		})
	}
}

func TestACallbackUnderALockCallsNoAllocatorAtAll(t *testing.T) {
	a, other := small(t), small(t)
	var refused error
	attached(t)(a.ObserveTrace(func(cachalot.TraceEntry) { _, refused = other.Allocate(1, 0, 0) }))
	works(t, block(t, a, mib, 0).Close())
	if !errors.Is(refused, cachalot.ErrInvalidState) || !strings.Contains(refused.Error(), "no allocator") {
		t.Error(refused)
	}
}
