// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"cachalot.io/go"
)

// What is at the edge of what a call takes, or beyond it.

// refused fails the test for the first error that is not ErrInvalidArgument.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestNumbersThatCDoesNotHaveNameNoDevice(t *testing.T) {
	a := simulated(t)
	tenant := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{}))
	defer tenant.Close()
	for _, device := range []int{1 << 32, -1 << 32, 1<<32 - 1, math.MaxInt, math.MinInt} {
		_, err := a.Allocate(512, device, 0)
		refused(t, "Allocate", err)
		_, err = a.AllocateWith(t.Context(), cachalot.Request{Size: 512, Device: device})
		refused(t, "AllocateWith", err)
		_, err = a.Stats(device)
		refused(t, "Stats", err)
		_, err = a.CreatePool(device, cachalot.PoolOptions{})
		refused(t, "CreatePool", err)
		_, err = a.Report(cachalot.ReportOptions{Device: device})
		refused(t, "Report", err)
		_, err = cachalot.OpenHost(0, device)
		refused(t, "OpenHost", err)
		_, err = cachalot.OpenSim(cachalot.SimOptions{Devices: device})
		refused(t, "OpenSim", err)
		refused(t, "SetBytes", tenant.SetBytes(device, 1, 2))
		_, err = cachalot.Open(cachalot.WithRelease(cachalot.Release(device)), cachalot.WithOptions(""))
		refused(t, "WithRelease", err)
	}
	works(t, tenant.SetBytes(cachalot.AllDevices, 1, 2))
	same(t, "allocated", a.MemoryAllocated(0), 0)
}

func TestAPriorityThatCDoesNotHaveIsRefused(t *testing.T) {
	a := simulated(t)
	tenant := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{Priority: math.MinInt32}))
	defer tenant.Close()
	for _, priority := range []int{1 << 31, -1<<31 - 1, 1 << 32} {
		_, err := a.CreateTenant(cachalot.TenantOptions{Priority: priority})
		refused(t, "CreateTenant", err)
		refused(t, "SetPriority", tenant.SetPriority(priority))
	}
	same(t, "priority", need[cachalot.TenantStats](t)(tenant.Stats(0)).Priority, math.MinInt32)
	works(t, tenant.SetPriority(math.MaxInt32))
	same(t, "priority", need[cachalot.TenantStats](t)(tenant.Stats(0)).Priority, math.MaxInt32)
}

func TestNilIsRefusedWhereItWouldPanicLater(t *testing.T) {
	caught := panics(t)
	for what, option := range map[string]cachalot.Option{
		"no option": nil, "no driver": cachalot.OverDriver(nil), "no log": cachalot.WithLog(nil),
		"no logger":   cachalot.WithLogger(nil),
		"no contexts": cachalot.WithContexts(nil, func(uint64) string { return "" }),
		"no texts":    cachalot.WithContexts(func() uint64 { return 0 }, nil),
	} {
		_, err := cachalot.Open(cachalot.WithOptions(""), option)
		refused(t, what, err)
	}
	a := simulated(t)
	_, trace := a.ObserveTrace(nil)
	_, oom := a.ObserveOutOfMemory(nil)
	_, rejection := a.ObserveRejection(nil)
	_, free := a.OnFreeMemory(nil)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	_, route := pool.Route(cachalot.RoutePredicate(nil))
	_, source := a.CreatePool(0, cachalot.PoolOptions{Source: &cachalot.PoolSource{}})
	_, read := cachalot.ReadTrace(nil)
	s := need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	for what, err := range map[string]error{
		"ObserveTrace": trace, "ObserveOutOfMemory": oom, "ObserveRejection": rejection, "OnFreeMemory": free,
		"Route": route, "CreatePool": source, "ReadTrace": read, "WriteTrace": s.WriteTrace(nil, nil, ""),
		"WritePickle": s.WritePickle(nil, nil),
	} {
		refused(t, what, err)
	}
	same(t, "uses of the pool", need[int](t)(pool.Key().UseCount()), 1)
	works(t, block(t, a, mib, 0).Close(), s.Close(), pool.Close())
	same(t, "panics", len(*caught), 0)
}

func TestATimeThatIsNegativeIsRefused(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	a := over(t, device.Driver)
	works(t, block(t, a, 20*mib, 0).Close())
	_, err := a.Trim(0, 0, -time.Nanosecond)
	refused(t, "Trim", err)
	_, err = a.TrimAt(0, 0, -time.Second, time.Second)
	refused(t, "TrimAt", err)
	_, err = a.TrimAt(0, 0, 0, -time.Second)
	refused(t, "TrimAt's clock", err)
	refused(t, "SetLatency", device.SetLatency(cachalot.SimAllocate, -1))
	same(t, "nothing went", a.MemoryReserved(0), 20*mib)
}

func TestAnEmptyBlockCanBeLeakedAndAdopted(t *testing.T) {
	a := simulated(t)
	b := block(t, a, 0, 0)
	again := need[*cachalot.Block](t)(a.Adopt(need[cachalot.Address](t)(b.Leak())))
	same(t, "address and size", [2]uint64{uint64(again.Address()), again.Size()}, [2]uint64{})
	works(t, again.Close(), a.Close())
	if _, err := a.Adopt(0); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
}

func TestABatchSaysWhichAddressCouldNotBeFreed(t *testing.T) {
	a := simulated(t)
	addresses := make([]cachalot.Address, 3)
	works(t, a.AllocateAddresses(addresses, []uint64{mib, 2 * mib, 512}, 0, 0))
	err := a.FreeAddresses([]cachalot.Address{addresses[0], addresses[1], 512, 0, 1024, addresses[2]})
	var batch *cachalot.BatchError
	var failed *cachalot.Error
	if !errors.As(err, &batch) || !errors.As(err, &failed) || !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Fatal(err)
	}
	same(t, "index", batch.Index, 2)
	same(t, "address", batch.Address, 512)
	same(t, "freed", batch.Freed, 4)
	same(t, "text", err.Error(), "address 2 (0x200): "+failed.Message)
	same(t, "allocated", a.MemoryAllocated(0), 0)
	works(t, a.Close())
	if err := a.FreeAddresses(addresses); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
}

func TestAPhaseLeavesNothingInTheCacheHoweverItEnds(t *testing.T) {
	a := simulated(t)
	phase := func(end func() error) func() error {
		return func() error {
			works(t, block(t, a, mib, 0).Close())
			same(t, "cached", a.MemoryReserved(0) > 0, true)
			return end()
		}
	}
	empty := func() { t.Helper(); same(t, "reserved", a.MemoryReserved(0), 0) }
	works(t, a.EmptyCacheAfter(phase(func() error { return nil })))
	empty()
	if err := a.EmptyCacheAfter(phase(func() error { return io.EOF })); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	empty()
	func() {
		defer func() { same[any](t, "panic", recover(), "expected") }()
		_ = a.EmptyCacheAfter(phase(func() error { panic("expected") }))
	}()
	empty()
	works(t, a.EmptyCacheAfter(phase(func() error { return a.Close() })))
}
