// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cachalot.io/go"
)

// Uses of pools, and ends that fail.

func TestARoutingThatCannotBeReleasedIsEnded(t *testing.T) {
	a := simulated(t)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	together(1, func(int) {
		end, err := pool.Route(cachalot.RouteThisThread())
		tried(t, err, pool.Close(), pool.Key().Release()) // The use of the routing is gone.
		for range 2 {
			if err := end(); err == nil || !strings.Contains(err.Error(), "released more often") {
				t.Error(err)
			}
		}
		same(t, "the thread is locked", isLocked(), false)
	})
	if err := pool.Key().End(); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Errorf("it was not ended: %v", err)
	}
}

func TestWhatIsRefusedTakesNoUseOfOthers(t *testing.T) {
	a := simulated(t)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	id := pool.Key().ID()
	end := need[func() error](t)(pool.Route(cachalot.RouteNone()))
	source := cachalot.PoolOptions{Source: &cachalot.PoolSource{
		Allocate: func(uint64, int, cachalot.Stream) cachalot.Address { return 0 },
		Free:     func(cachalot.Address, uint64, int, cachalot.Stream) {},
	}}
	var stop atomic.Bool
	time.AfterFunc(500*time.Millisecond, func() { stop.Store(true) })
	together(6, func(number int) {
		for !stop.Load() && !t.Failed() {
			switch number {
			case 0, 1:
				if _, err := a.JoinPool(0, id, source); !errors.Is(err, cachalot.ErrInvalidState) {
					t.Error(err)
				}
			case 2:
				if _, err := pool.Route(cachalot.RouteAll()); !errors.Is(err, cachalot.ErrInvalidState) {
					t.Error(err)
				}
			default:
				joined, err := a.JoinPool(0, id, cachalot.PoolOptions{})
				tried(t, err)
				if err == nil {
					tried(t, joined.Close())
				}
			}
		}
	})
	same(t, "uses", need[int](t)(pool.Key().UseCount()), 2)
	works(t, end(), pool.Close())
	if _, err := pool.Route(cachalot.RouteAll()); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
	same(t, "uses at the end", need[int](t)(pool.Key().UseCount()), 0)
	if _, err := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{})).Route(cachalot.RouteNone()); err != nil {
		t.Error(err)
	}
}

func TestAPoolThatEndedWithItsAllocatorIsNoLeak(t *testing.T) {
	func() {
		a := simulated(t)
		need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
		need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{})) // Is one, and says that the collector ran.
		works(t, a.CloseAll())
	}()
	var mutex sync.Mutex
	seen := map[string]int{}
	cachalot.OnLeak(func(leak cachalot.Leak) {
		mutex.Lock()
		defer mutex.Unlock()
		seen[leak.Kind]++
	})
	defer cachalot.OnLeak(nil)
	count := func(kind string) int {
		mutex.Lock()
		defer mutex.Unlock()
		return seen[kind]
	}
	for i := 0; i < 400 && count("snapshot") == 0; i++ {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
	runtime.GC()
	time.Sleep(20 * time.Millisecond)
	same(t, "snapshots", count("snapshot"), 1)
	same(t, "pools", count("pool"), 0)
}

func TestAnEndOfACaptureThatWasRefusedIsTriedAgain(t *testing.T) {
	a := small(t)
	end := need[func() error](t)(a.CaptureBegin(0))
	var refused error
	detach := need[func() error](t)(a.ObserveTrace(func(cachalot.TraceEntry) {
		if refused == nil {
			refused = end()
		}
	}))
	works(t, block(t, a, mib, 0).Close(), detach())
	if !errors.Is(refused, cachalot.ErrInvalidState) {
		t.Error(refused)
	}
	works(t, end(), end())
	if err := a.CaptureEnd(0); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Errorf("it was not ended: %v", err)
	}
}
