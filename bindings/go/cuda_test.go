// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"cachalot.io/go"
)

// The driver "cuda". Skipped where there is no GPU, unless CACHALOT_GPU_TESTS promises one.

// legacy is the default stream by its old name.
const legacy = cachalot.Stream(1)

func gpu(t *testing.T, name string, options cachalot.Options) *cachalot.Allocator {
	t.Helper()
	driver, err := cachalot.OpenDriver(name)
	if err != nil {
		if promised := os.Getenv("CACHALOT_GPU_TESTS"); promised != "" && promised != "0" {
			t.Fatalf("a GPU was promised: %v", err)
		}
		t.Skip(err)
	}
	if driver.DeviceCount() == 0 {
		t.Fatal("the driver has no device")
	}
	t.Cleanup(func() { _ = driver.Close() })
	return over(t, driver, cachalot.WithOptions(options), cachalot.TrackLabels())
}

func TestBlocksOfTheGPU(t *testing.T) {
	for _, options := range []cachalot.Options{"", "expandable_segments:True", "backend:cudaMallocAsync"} {
		t.Run(string(options), func(t *testing.T) {
			a := gpu(t, "cuda", options)
			before := need[cachalot.DeviceTotals](t)(a.DeviceTotals(0))
			b, other := block(t, a, 100*mib, 0), block(t, a, 5*mib, 0)
			if b.Address() == 0 || b.Address() == other.Address() {
				t.Errorf("%v, %v", b, other)
			}
			works(t, b.RecordStream(legacy))
			same(t, "requested", need[cachalot.BlockInfo](t)(b.Info()).Requested, 100*mib)
			if a.MemoryAllocated(0) < 105*mib {
				t.Error(a.MemoryAllocated(0))
			}
			works(t, b.Close(), other.Close(), a.EmptyCache())
			same(t, "reserved", a.MemoryReserved(0), 0)
			same(t, "total", need[cachalot.DeviceTotals](t)(a.DeviceTotals(0)).Total, before.Total)
		})
	}
}

func TestOutOfMemoryOfTheGPU(t *testing.T) {
	a := gpu(t, "cuda", "")
	total := need[cachalot.DeviceTotals](t)(a.DeviceTotals(0)).Total
	_, err := a.Allocate(2*total, 0, 0)
	var numbers *cachalot.OutOfMemoryError
	if !errors.As(err, &numbers) || numbers.DeviceTotal != total || numbers.DeviceFree >= total ||
		!strings.HasPrefix(err.Error(), "CUDA out of memory. Tried to allocate ") {
		t.Error(err)
	}
	works(t, block(t, a, mib, 0).Close(), a.Check())
}

func TestIdleMemoryOfTheGPUGoesBack(t *testing.T) {
	a := gpu(t, "cuda", "")
	works(t, block(t, a, 64*mib, 0).Close())
	same(t, "given back", need[uint64](t)(a.Trim(0, 0, 0)), 64*mib)
	ctx := cachalot.WithLabel(t.Context(), "weights")
	b := need[*cachalot.Block](t)(a.AllocateWith(ctx, cachalot.Request{Size: mib}))
	report := need[*cachalot.Report](t)(a.Report(cachalot.ReportOptions{}))
	same(t, "holder", need[[]cachalot.ReportHolder](t)(report.Holders())[0].Label, "weights")
	same(t, "reserved", need[cachalot.ReportNumbers](t)(report.Numbers()).Reserved, a.MemoryReserved(0))
	works(t, report.Close(), b.Close())
}

func TestGoroutinesShareTheGPU(t *testing.T) {
	a := gpu(t, "cuda:2GiB", "")
	together(1000, func(number int) {
		for round := range 20 {
			b, err := a.Allocate(512*uint64(1+(number*31+round)%4000), 0, 0)
			if err != nil {
				t.Error(err)
				return
			}
			tried(t, b.RecordStream(legacy), b.Close())
		}
	})
	works(t, a.Check())
	same(t, "allocated", a.MemoryAllocated(0), 0)
}

func TestABatchOfTheGPU(t *testing.T) {
	a := gpu(t, "cuda", "")
	sizes, addresses := make([]uint64, 1000), make([]cachalot.Address, 1000)
	for i := range sizes {
		sizes[i] = uint64(1 + i*997)
	}
	works(t, a.AllocateAddresses(addresses, sizes, 0, 0), a.FreeAddresses(addresses), a.EmptyCache())
	same(t, "reserved", a.MemoryReserved(0), 0)
}
