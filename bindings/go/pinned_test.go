// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cachalot.io/go"
)

// everyPinned runs a test over each way to cache pinned memory, and each driver that has some here.
func everyPinned(t *testing.T, test func(t *testing.T, a *cachalot.Allocator)) {
	for _, name := range []string{"host:1GiB", "sim:1GiB"} {
		for how, options := range map[string][]cachalot.Option{
			"as in PyTorch":  nil,
			"as of a device": {cachalot.WithPinnedConfig("")},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				driver := need[*cachalot.Driver](t)(cachalot.OpenDriver(name))
				t.Cleanup(func() { _ = driver.Close() })
				test(t, over(t, driver, options...))
			})
		}
	}
}

func pinnedBlock(t testing.TB, a *cachalot.Allocator, size uint64) *cachalot.PinnedBlock {
	t.Helper()
	return need[*cachalot.PinnedBlock](t)(a.AllocatePinned(size))
}

func pinnedStats(t testing.TB, a *cachalot.Allocator) cachalot.PinnedStats {
	t.Helper()
	return need[cachalot.PinnedStats](t)(a.PinnedStats())
}

// fails fails the test unless the error is this one.
func fails(t testing.TB, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Errorf("%v, not %v", err, wanted)
	}
}

func TestAPinnedBlockIsBytesUntilItIsFreed(t *testing.T) {
	everyPinned(t, func(t *testing.T, a *cachalot.Allocator) {
		for _, size := range []uint64{1, 511, 4097, 3 * mib} {
			b := pinnedBlock(t, a, size)
			bytes := b.Bytes()
			same(t, "length", uint64(len(bytes)), size)
			same(t, "capacity", uint64(cap(bytes)), size)
			for i := range bytes {
				bytes[i] = byte(i)
			}
			same(t, "the last byte, by another slice", b.Bytes()[size-1], byte(size-1))
			same(t, "begin", uint64(b.Address())%512, 0)
			same(t, "pointer", cachalot.Address(uintptr(b.Pointer())), b.Address())
			if blockSize := need[uint64](t)(b.BlockSize()); blockSize < size {
				t.Errorf("a block of %d bytes for %d", blockSize, size)
			}
			works(t, b.Free(), b.Free())
			same(t, "bytes of what is freed", b.Bytes() == nil, true)
			fails(t, b.RecordStream(0, 7), cachalot.ErrClosed)
			_, err := b.BlockSize()
			fails(t, err, cachalot.ErrClosed)
			same(t, "text", strings.HasSuffix(b.String(), "freed)"), true)
		}
		works(t, a.Check())
		same(t, "in use", pinnedStats(t, a).ActiveRequests.Current, 0)
	})
}

func TestARequestForNoPinnedBytesGivesAnEmptyBlock(t *testing.T) {
	everyPinned(t, func(t *testing.T, a *cachalot.Allocator) {
		b := pinnedBlock(t, a, 0)
		same(t, "address", b.Address(), 0)
		same(t, "an empty slice", b.Bytes() != nil && len(b.Bytes()) == 0, true)
		same(t, "size", need[uint64](t)(b.BlockSize()), 0)
		works(t, b.RecordStream(0, 7), b.Free())
		same(t, "obtained", pinnedStats(t, a).Allocations.Allocated, 0)
	})
}

func TestAPinnedSizeThatNoMemoryHasIsAnError(t *testing.T) {
	everyPinned(t, func(t *testing.T, a *cachalot.Allocator) {
		for _, size := range []uint64{math.MaxUint64, 1 << 63, math.MaxInt64} {
			if _, err := a.AllocatePinned(size); err == nil {
				t.Errorf("%d bytes were handed out", size)
			}
		}
		same(t, "obtained", pinnedStats(t, a).Allocations.Current, 0)
	})
}

func TestPinnedMemoryIsNoDeviceMemory(t *testing.T) {
	everyPinned(t, func(t *testing.T, a *cachalot.Allocator) {
		b := pinnedBlock(t, a, 4096)
		fails(t, a.Free(b.Address()), cachalot.ErrInvalidArgument)
		_, err := a.Adopt(b.Address())
		fails(t, err, cachalot.ErrInvalidArgument)
		same(t, "blocks of the device", need[cachalot.Stats](t)(a.Stats(0)).Allocation.All.Current, 0)
		b.Bytes()[4095] = 1
		works(t, b.Free())
	})
}

func TestAnAllocatorWithPinnedBlocksRefusesToClose(t *testing.T) {
	everyPinned(t, func(t *testing.T, a *cachalot.Allocator) {
		b := pinnedBlock(t, a, 4096)
		err := a.Close()
		fails(t, err, cachalot.ErrInvalidState)
		same(t, "its text", strings.Contains(err.Error(), "1 block is still live"), true)
		b.Bytes()[0] = 1
		works(t, a.CloseAll(), b.Free())
		same(t, "bytes of a closed allocator", b.Bytes() == nil, true)
		_, err = a.AllocatePinned(1)
		fails(t, err, cachalot.ErrClosed)
		_, err = a.PinnedStats()
		fails(t, err, cachalot.ErrClosed)
	})
}

func TestAPinnedBlockThatAStreamUsesWaitsForItAfterItsFree(t *testing.T) {
	for _, options := range [][]cachalot.Option{nil, {cachalot.WithPinnedConfig("")}} {
		device := sim(t, cachalot.SimOptions{Devices: 2})
		a := over(t, device.Driver, options...)
		b := pinnedBlock(t, a, 2*mib)
		works(t, device.QueueWork(1, 7), b.RecordStream(1, 7))
		fails(t, b.RecordStream(2, 7), cachalot.ErrInvalidArgument)
		works(t, b.Free())
		other := pinnedBlock(t, a, 2*mib)
		same(t, "handed out too early", other.Address() == b.Address(), false)
		works(t, device.FinishStream(1, 7))
		again := pinnedBlock(t, a, 2*mib)
		same(t, "handed out again", again.Address(), b.Address())
		works(t, other.Free(), again.Free())
	}
}

func TestCallsForPinnedMemoryAreCountedAndCanFail(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	a := over(t, device.Driver)
	works(t, device.LogCalls(cachalot.SimLogCalls), pinnedBlock(t, a, 3000).Free())
	stats := pinnedStats(t, a)
	same(t, "allocations", stats.Allocations.Current, 1)
	same(t, "bytes", stats.AllocatedBytes.Current, 4096)
	same(t, "active", stats.ActiveRequests, cachalot.Stat{Peak: 1, Allocated: 1, Freed: 1})
	same(t, "active bytes", stats.ActiveBytes.Peak, 4096)
	same(t, "calls", [2]int64{stats.AllocateTimes.Count, stats.FreeTimes.Count}, [2]int64{1, 0})
	works(t, a.EmptyPinnedCache())
	same(t, "calls", need[string](t)(device.ReadCalls()), "host_alloc 4096\nhost_free\n")
	same(t, "peak", pinnedStats(t, a).Allocations.Peak, 1)
	works(t, a.ResetPinnedPeakStats(), a.ResetPinnedAccumulatedStats())
	same(t, "after the resets", pinnedStats(t, a), cachalot.PinnedStats{})

	works(t, device.Fail(cachalot.SimFailure{Calls: cachalot.SimHostAllocate, Code: cachalot.DriverOutOfMemory}))
	_, err := a.AllocatePinned(1)
	fails(t, err, cachalot.ErrDriver)
	works(t, pinnedBlock(t, a, 1).Free())
	works(t, device.Fail(cachalot.SimFailure{Calls: cachalot.SimHostFree, Code: 700}))
	var failed *cachalot.Error
	if err := a.EmptyPinnedCache(); !errors.As(err, &failed) || failed.DriverCode != 700 {
		t.Error(err)
	}
}

func TestAPinnedBlockIsGivenUpAlsoWhereItsEventCannotBeRecorded(t *testing.T) {
	for _, options := range [][]cachalot.Option{nil, {cachalot.WithPinnedConfig("")}} {
		device := sim(t, cachalot.SimOptions{})
		a := over(t, device.Driver, options...)
		b := pinnedBlock(t, a, 4096)
		works(t, b.RecordStream(0, 7))
		works(t, device.Fail(cachalot.SimFailure{Calls: cachalot.SimEventRecord, Code: 700}))
		if err := b.Free(); err != nil {
			fails(t, err, cachalot.ErrDriver)
		}
		works(t, b.Free(), a.Close())
	}
}

func TestAGraphKeepsItsPinnedPool(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	a := over(t, device.Driver)
	id := need[cachalot.PoolID](t)(a.NewPoolID(true))
	works(t, device.BeginCapture(0, 7, 9))
	graph, end, err := a.RoutePinned(0, id, cachalot.RouteCapture(9))
	works(t, err)
	_, _, err = a.RoutePinned(0, id, cachalot.RouteAll())
	fails(t, err, cachalot.ErrInvalidState)
	outside := pinnedBlock(t, a, 4096)
	inside := need[*cachalot.PinnedBlock](t)(a.AllocatePinnedOnStream(4096, 0, 7))
	works(t, inside.Free(), outside.Free())
	again := need[*cachalot.PinnedBlock](t)(a.AllocatePinnedOnStream(4096, 0, 7))
	same(t, "the pool has a cache of its own", again.Address(), inside.Address())
	works(t, end(), end(), device.EndCapture(0, 9), again.Free(), a.EmptyPinnedCache())
	same(t, "the graph's", pinnedStats(t, a).Allocations.Current, 1)
	key := graph.Key()
	same(t, "key", key, a.PinnedPoolAt(id))
	fails(t, key.End(), cachalot.ErrInvalidState)
	works(t, graph.Close(), graph.Close())
	fails(t, key.Release(), cachalot.ErrInvalidState)
	fails(t, key.Begin(0, cachalot.RouteAll()), cachalot.ErrInvalidState)
	works(t, a.EmptyPinnedCache())
	same(t, "at the end", pinnedStats(t, a).Allocations.Current, 0)
	fails(t, key.Release(), cachalot.ErrInvalidArgument)
	fails(t, key.Begin(1, cachalot.RouteAll()), cachalot.ErrInvalidArgument)
	fails(t, key.Begin(0, cachalot.RoutePredicate(nil)), cachalot.ErrInvalidArgument)
	works(t, key.Begin(0, cachalot.RouteStream(7)), key.End(), key.Release())
}

func TestARoutingOfPinnedMemoryIsThatOfOneGoroutine(t *testing.T) {
	a := simulated(t)
	id := cachalot.PoolID{Second: 1}
	together(1, func(int) {
		graph, end, err := a.RoutePinned(0, id, cachalot.RouteThisThread())
		tried(t, err)
		same(t, "the thread is locked", isLocked(), true)
		inside, err := a.AllocatePinned(512)
		tried(t, err, inside.Free(), end(), graph.Close())
		same(t, "the thread is locked at the end", isLocked(), false)
		outside, err := a.AllocatePinned(512)
		tried(t, err)
		same(t, "the same cache", outside.Address() == inside.Address(), false)
		tried(t, outside.Free())
	})
}

func TestPinnedMemoryThatIsCachedAsADevicesHasAnAllocator(t *testing.T) {
	a := simulated(t, cachalot.WithPinnedConfig(""))
	pinned := a.PinnedAllocator()
	same(t, "each time", a.PinnedAllocator(), pinned)
	same(t, "of that one", pinned.PinnedAllocator() == nil, true)
	_, err := pinned.AllocatePinned(1)
	fails(t, err, cachalot.ErrNotSupported)
	same(t, "driver", pinned.DriverName(), "pinned")
	same(t, "devices", pinned.DeviceCount(), 1)
	b := pinnedBlock(t, a, 4096)
	same(t, "allocated", pinned.MemoryAllocated(0), 4096)
	same(t, "of the device", a.MemoryAllocated(0), 0)
	same(t, "requested", need[cachalot.BlockInfo](t)(pinned.BlockAt(b.Address())).Requested, 4096)
	works(t, pinned.Close(), pinned.CloseAll(), pinned.SetMemoryLimit(0, 4*mib))
	_, err = a.AllocatePinned(64 * mib)
	fails(t, err, cachalot.ErrOutOfHostMemory)
	_, _, err = a.RoutePinned(0, cachalot.PoolID{First: 1}, cachalot.RouteAll())
	fails(t, err, cachalot.ErrNotSupported)
	b.Bytes()[0] = 1
	works(t, b.Free(), pinned.Check())
	if released := need[uint64](t)(pinned.Trim(0, 0, 0)); released == 0 {
		t.Error("nothing was given back")
	}
	same(t, "bytes", pinnedStats(t, a).AllocatedBytes.Current, 0)
	works(t, a.Close())
	fails(t, pinned.EmptyCache(), cachalot.ErrClosed)
}

func TestTenantsAndLabelsOfPinnedMemoryAreTheGoroutines(t *testing.T) {
	a := simulated(t, cachalot.WithPinnedConfig(""), cachalot.TrackLabels())
	pinned := a.PinnedAllocator()
	tenant := need[*cachalot.Tenant](t)(pinned.CreateTenant(cachalot.TenantOptions{Name: "loader"}))
	together(1, func(int) {
		endTenant, err := tenant.Scope()
		tried(t, err)
		endLabel, err := cachalot.LabelScope("batch")
		tried(t, err)
		b, err := a.AllocatePinned(4096)
		tried(t, err)
		stats, err := tenant.Stats(0)
		same(t, "the tenant's", stats.AllocatedBytes.Current, 4096)
		labels, labelsErr := pinned.LabelStats(0)
		tried(t, err, labelsErr, endLabel(), endTenant(), b.Free())
		if len(labels) != 1 || labels[0].Label != "batch" {
			t.Errorf("labels: %v", labels)
		}
	})
	works(t, tenant.Close(), a.Close())
}

func TestWithoutAPinnedConfigThereIsNoPinnedAllocator(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	same(t, "none", over(t, device.Driver).PinnedAllocator() == nil, true)
	for _, options := range []cachalot.Options{"nonsense:1", "a\x00b", "expandable_segments:True",
		"backend:cudaMallocAsync"} {
		if _, err := cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithPinnedConfig(options)); err == nil {
			t.Errorf("%q was taken", options)
		}
	}
}

// A source may name memory that nobody has: a slice of it would let Go write anywhere.
func TestAPoolOfPinnedMemoryHasNoSource(t *testing.T) {
	a := simulated(t, cachalot.WithPinnedConfig(""))
	_, err := a.PinnedAllocator().CreatePool(0, cachalot.PoolOptions{Source: &cachalot.PoolSource{
		Allocate: func(uint64, int, cachalot.Stream) cachalot.Address { return 0x4000_0000 },
		Free:     func(cachalot.Address, uint64, int, cachalot.Stream) {},
	}})
	fails(t, err, cachalot.ErrNotSupported)
}

func TestPinnedMemoryIsRefusedFromWithinACallbackUnderALock(t *testing.T) {
	a := simulated(t)
	b := pinnedBlock(t, a, 4096)
	seen := false
	detach := need[func() error](t)(a.ObserveTrace(func(cachalot.TraceEntry) {
		if seen {
			return
		}
		seen = true
		_, err := a.AllocatePinned(1)
		_, statsErr := a.PinnedStats()
		_, _, routeErr := a.RoutePinned(0, cachalot.PoolID{First: 1}, cachalot.RouteAll())
		for _, err := range []error{err, statsErr, routeErr, b.RecordStream(0, 7), b.Free(), a.EmptyPinnedCache()} {
			fails(t, err, cachalot.ErrInvalidState)
		}
	}))
	works(t, block(t, a, 512, 0).Close(), detach())
	same(t, "called", seen, true)
	same(t, "it is there as before", len(b.Bytes()), 4096)
	works(t, b.Free(), a.PinnedPoolAt(cachalot.PoolID{First: 1}).Begin(0, cachalot.RouteAll()))
	same(t, "in use", pinnedStats(t, a).ActiveRequests.Current, 0)
}

// A callback of the pinned allocator goes on with both while another goroutine closes the allocator.
func TestCallbacksOfThePinnedAllocatorAreTheAllocatorsOwn(t *testing.T) {
	a := simulated(t, cachalot.WithPinnedConfig(""))
	pinned := a.PinnedAllocator()
	closed := make(chan error, 1)
	var calls atomic.Int64
	_, err := pinned.OnFreeMemory(func(int, uint64) bool {
		if calls.Add(1) > 1 {
			return false
		}
		fails(t, a.Close(), cachalot.ErrInvalidState)
		go func() { closed <- a.CloseAll() }()
		time.Sleep(50 * time.Millisecond)
		_, err := a.PinnedStats()
		_, limitErr := pinned.Stats(0)
		tried(t, err, limitErr)
		return false
	})
	works(t, err)
	b, err := pinned.Allocate(4096, 0, 0)
	works(t, err, <-closed, b.Close())
}

func TestAPinnedBlockThatNobodyFreedIsALeak(t *testing.T) {
	var found atomic.Pointer[cachalot.Leak]
	cachalot.OnLeak(func(leak cachalot.Leak) {
		if leak.Kind == "pinned block" {
			found.Store(&leak)
		}
	})
	defer cachalot.OnLeak(nil)
	a := simulated(t, cachalot.TrackBlocks())
	func() {
		works(t, pinnedBlock(t, a, 1).Free())
		pinnedBlock(t, a, 4096)
	}()
	for i := 0; i < 400 && found.Load() == nil; i++ {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
	leak := found.Load()
	if leak == nil {
		t.Fatal("nobody heard of it")
	}
	same(t, "size", leak.Size, 4096)
	same(t, "text", strings.HasSuffix(leak.String(), "was never freed"), true)
}

func TestManyGoroutinesUsePinnedMemory(t *testing.T) {
	everyPinned(t, func(t *testing.T, a *cachalot.Allocator) {
		together(8, func(number int) {
			for i := range 200 {
				b, err := a.AllocatePinned(uint64(1 + (i*number)%5000))
				if err != nil {
					t.Error(err)
					return
				}
				bytes := b.Bytes()
				for j := range bytes {
					bytes[j] = byte(number)
				}
				runtime.Gosched()
				for j := range bytes {
					if bytes[j] != byte(number) {
						t.Error("somebody else wrote there")
						return
					}
				}
				tried(t, b.RecordStream(0, cachalot.Stream(number)), b.Free())
			}
		})
		works(t, a.Check(), a.Close())
	})
}
