// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cachalot.io/go"
)

// Who ends what, and when.

func TestWhatIsClosedSaysSo(t *testing.T) {
	device := sim(t, cachalot.SimOptions{Capacity: 1 << 30})
	a := over(t, device.Driver)
	works(t, device.Close(), device.Close())
	if err := device.QueueWork(0, 1); !errors.Is(err, cachalot.ErrClosed) || !errors.Is(err, cachalot.ErrInvalidState) {
		t.Error(err)
	}
	same(t, "name of a closed driver", device.Name(), "")
	b := block(t, a, mib, 0)
	if err := a.Close(); !errors.Is(err, cachalot.ErrInvalidState) || !strings.Contains(err.Error(), "1") {
		t.Errorf("a block is live: %v", err)
	}
	same(t, "it is still there", a.MemoryAllocated(0), mib)
	works(t, b.Close(), b.Close())
	if _, err := b.Info(); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
	if _, err := b.Leak(); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
	works(t, a.Close(), a.Close(), a.CloseAll())
	if _, err := a.Allocate(1, 0, 0); !errors.Is(err, cachalot.ErrClosed) || err.Error() != "the allocator is closed" {
		t.Error(err)
	}
	same(t, "handle", a.Handle(), 0)
	same(t, "backend", a.Backend(), "")
	if _, err := cachalot.Open(cachalot.OverDriver(device.Driver)); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
}

func TestCloseAllEndsBlocksToo(t *testing.T) {
	a := simulated(t)
	b := block(t, a, mib, 0)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	endRoute := need[func() error](t)(pool.Route(cachalot.RouteAll()))
	endCapture := need[func() error](t)(a.CaptureBegin(0))
	tenant := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{}))
	detach := need[func() error](t)(a.OnFreeMemory(func(int, uint64) bool { return false }))
	works(t, a.CloseAll())
	works(t, endCapture(), endRoute(), endRoute(), pool.Close(), tenant.Close(), tenant.Close(), detach(), b.Close())
	if !strings.HasSuffix(b.String(), "1048576 bytes, closed)") {
		t.Error(b)
	}
}

func TestASnapshotOutlivesItsAllocator(t *testing.T) {
	a := simulated(t)
	block(t, a, mib, 0)
	s := need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	works(t, a.CloseAll())
	same(t, "blocks", s.BlockCount(), 2)
	works(t, s.Close())
	if _, err := s.Segments(); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
}

func TestBytesOfTheHost(t *testing.T) {
	a := host(t)
	b := block(t, a, 1000, 0)
	bytes := need[[]byte](t)(b.Bytes())
	same(t, "length", len(bytes), 1000)
	same(t, "capacity", cap(bytes), 1000)
	copy(bytes, "whale")
	runtime.GC()
	again := need[[]byte](t)(b.Bytes())
	same(t, "the same memory", string(again[:5]), "whale")
	empty := block(t, a, 0, 0)
	same(t, "an empty block", len(need[[]byte](t)(empty.Bytes())), 0)
	works(t, b.Close())
	if _, err := b.Bytes(); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
	if _, err := block(t, simulated(t), 1, 0).Bytes(); !errors.Is(err, cachalot.ErrNotSupported) {
		t.Errorf("a simulated block has bytes: %v", err)
	}
}

// leaks collects until a leak of each kind is reported.
func leaks(t *testing.T, kinds ...string) {
	t.Helper()
	var mutex sync.Mutex
	seen := map[string]int{}
	cachalot.OnLeak(func(leak cachalot.Leak) {
		mutex.Lock()
		defer mutex.Unlock()
		seen[leak.Kind]++
		if leak.Kind == "block" && (leak.Address == 0 || leak.Size != 512 || !strings.Contains(leak.String(), "512")) {
			t.Errorf("%+v: %s", leak, leak)
		}
	})
	defer cachalot.OnLeak(nil)
	for range 400 {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
		mutex.Lock()
		missing := 0
		for _, kind := range kinds {
			if seen[kind] == 0 {
				missing++
			}
		}
		mutex.Unlock()
		if missing == 0 {
			return
		}
	}
	t.Errorf("not all of %v were reported: %v", kinds, seen)
}

func forget(t *testing.T) {
	device := need[*cachalot.Sim](t)(cachalot.OpenSim(cachalot.SimOptions{}))
	a := need[*cachalot.Allocator](t)(cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions("")))
	need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{}))
	need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	need[*cachalot.Report](t)(a.Report(cachalot.ReportOptions{}))
}

func TestTheCollectorReportsWhatNobodyClosed(t *testing.T) {
	forget(t)
	leaks(t, "driver", "allocator", "pool", "tenant", "snapshot", "report")
}

func TestTheCollectorReportsBlocksAndFreesNone(t *testing.T) {
	a := simulated(t, cachalot.TrackBlocks())
	for range 10 {
		block(t, a, 512, 0)
	}
	works(t, block(t, a, 100, 0).Close()) // Would be a leak of another size.
	leaks(t, "block")
	same(t, "they are live", need[cachalot.Stats](t)(a.Stats(0)).Allocation.All.Current, 10)
}
