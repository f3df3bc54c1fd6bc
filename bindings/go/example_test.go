// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime"
	"time"

	"cachalot.io/go"
)

// device is a simulated GPU of 1 GiB for the examples.
func device() *cachalot.Driver {
	driver, err := cachalot.OpenDriver("sim:1GiB")
	if err != nil {
		log.Fatal(err)
	}
	return driver
}

func open(options ...cachalot.Option) *cachalot.Allocator {
	driver := device()
	defer driver.Close() // The allocator keeps it.
	allocator, err := cachalot.Open(append(options, cachalot.OverDriver(driver))...)
	if err != nil {
		log.Fatal(err)
	}
	return allocator
}

func Example() {
	driver, err := cachalot.OpenDriver("sim:1GiB") // Without a driver: the GPUs, if there are any.
	if err != nil {
		log.Fatal(err)
	}
	defer driver.Close()
	allocator, err := cachalot.Open(cachalot.OverDriver(driver), cachalot.WithOptions("max_split_size_mb:128"))
	if err != nil {
		log.Fatal(err)
	}
	defer allocator.Close()
	block, err := allocator.Allocate(1<<20, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer block.Close()
	fmt.Printf("%d bytes at %#x\n", block.Size(), block.Address())
	// Output: 1048576 bytes at 0x700000000000
}

func ExampleAllocator_Allocate_outOfMemory() {
	allocator := open()
	defer allocator.Close()
	_, err := allocator.Allocate(2<<30, 0, 0)
	var numbers *cachalot.OutOfMemoryError
	if errors.As(err, &numbers) {
		fmt.Println(numbers.Requested>>20, "MiB do not fit into", numbers.DeviceFree>>20)
	}
	fmt.Println(errors.Is(err, cachalot.ErrOutOfMemory))
	// Output:
	// 2048 MiB do not fit into 1024
	// true
}

func ExampleAllocator_AllocateWith() {
	allocator := open(cachalot.TrackLabels())
	defer allocator.CloseAll()
	ctx := cachalot.WithLabel(context.Background(), "model-a")
	_, err := allocator.AllocateWith(cachalot.WithLabel(ctx, "kv-cache"), cachalot.Request{Size: 1 << 20, Stream: 7})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := allocator.LabelStats(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows[0].Label, rows[0].AllocatedBytes.Current)
	// Output: model-a/kv-cache 1048576
}

func ExampleAllocator_AllocateAddresses() {
	allocator := open()
	defer allocator.Close()
	addresses := make([]cachalot.Address, 3)
	if err := allocator.AllocateAddresses(addresses, []uint64{512, 512, 1024}, 0, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%#x\n", addresses)
	if err := allocator.FreeAddresses(addresses); err != nil {
		log.Fatal(err)
	}
	// Output: [0x700000000000 0x700000000200 0x700000000400]
}

func ExampleBlock_Bytes() {
	driver, err := cachalot.OpenHost(64<<20, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer driver.Close()
	allocator, err := cachalot.Open(cachalot.OverDriver(driver))
	if err != nil {
		log.Fatal(err)
	}
	defer allocator.Close()
	block, err := allocator.Allocate(5, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer block.Close() // The slice is not used after this.
	bytes, err := block.Bytes()
	if err != nil {
		log.Fatal(err)
	}
	copy(bytes, "whale")
	fmt.Println(string(bytes))
	// Output: whale
}

func ExampleAllocator_AllocatePinned() {
	allocator := open()
	defer allocator.Close()
	staging, err := allocator.AllocatePinned(5)
	if err != nil {
		log.Fatal(err)
	}
	copy(staging.Bytes(), "whale")
	fmt.Println(string(staging.Bytes()))
	// A copy to device 0 on the stream 7, which the host does not wait for. Then:
	if err := staging.RecordStream(0, 7); err != nil {
		log.Fatal(err)
	}
	if err := staging.Free(); err != nil { // Handed out again when the copy is done.
		log.Fatal(err)
	}
	fmt.Println(staging.Bytes() == nil)
	// Output:
	// whale
	// true
}

func ExampleAllocator_RoutePinned() {
	allocator := open()
	defer allocator.Close()
	id, err := allocator.NewPoolID(true)
	if err != nil {
		log.Fatal(err)
	}
	graph, end, err := allocator.RoutePinned(0, id, cachalot.RouteAll())
	if err != nil {
		log.Fatal(err)
	}
	block, err := allocator.AllocatePinned(4096) // of the pool
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range []func() error{end, block.Free, graph.Close, allocator.EmptyPinnedCache} {
		if err := step(); err != nil {
			log.Fatal(err)
		}
	}
	stats, err := allocator.PinnedStats()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Allocations.Current, "of", stats.Allocations.Allocated)
	// Output: 0 of 1
}

func ExampleLabelScope() {
	allocator := open(cachalot.TrackLabels())
	defer allocator.CloseAll()
	load := func() error {
		end, err := cachalot.LabelScope("weights")
		if err != nil {
			return err
		}
		defer end()
		_, err = allocator.Allocate(2<<20, 0, 0)
		return err
	}
	if err := load(); err != nil {
		log.Fatal(err)
	}
	rows, err := allocator.LabelStats(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows[0].Label, rows[0].Allocation.Current)
	// Output: weights 1
}

func ExamplePool_Route() {
	allocator := open()
	defer allocator.CloseAll()
	pool, err := allocator.CreatePool(0, cachalot.PoolOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	end, err := pool.Route(cachalot.RouteStream(7))
	if err != nil {
		log.Fatal(err)
	}
	defer end()
	block, err := allocator.Allocate(512, 0, 7)
	if err != nil {
		log.Fatal(err)
	}
	info, err := block.Info()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Pool == pool.Key().ID())
	// Output: true
}

func ExampleAllocator_CreateTenant() {
	allocator := open()
	defer allocator.CloseAll()
	var cache []*cachalot.Block
	chat, err := allocator.CreateTenant(cachalot.TenantOptions{
		Name: "chat",
		OnPressure: func(pressure cachalot.Pressure) uint64 {
			freed := uint64(0)
			for _, block := range cache {
				freed += block.Size()
				block.Close()
			}
			cache = nil
			fmt.Println("chat gives", freed>>20, "MiB for", pressure.RequesterName)
			return freed
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	search, err := allocator.CreateTenant(cachalot.TenantOptions{Name: "search", GuaranteedBytes: 512 << 20})
	if err != nil {
		log.Fatal(err)
	}
	block, err := chat.Allocate(512<<20, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	cache = append(cache, block)
	if _, err = search.Allocate(768<<20, 0, 0); err != nil {
		log.Fatal(err)
	}
	// Output: chat gives 512 MiB for search
}

func ExampleNewOptions() {
	options := cachalot.NewOptions(cachalot.ExpandableSegments(true), cachalot.MaxSplitSizeMB(128))
	fmt.Println(options)
	fmt.Println(options.With(cachalot.MaxSplitSizeMB(64)))
	// Output:
	// expandable_segments:True,max_split_size_mb:128
	// expandable_segments:True,max_split_size_mb:64
}

// A tensor's block is closed when the collector finds that nobody has the tensor. It does not know when the memory of a
// device is short, so the allocator tells it.
func ExampleAllocator_OnFreeMemory_collector() {
	type tensor struct{ block *cachalot.Block }
	device, _ := cachalot.OpenSim(cachalot.SimOptions{Capacity: 100 << 20})
	defer device.Close()
	allocator, _ := cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions(""))
	defer allocator.CloseAll()
	makeTensor := func(size uint64) (*tensor, error) {
		block, err := allocator.Allocate(size, 0, 0)
		if err != nil {
			return nil, err
		}
		t := &tensor{block}
		runtime.AddCleanup(t, func(b *cachalot.Block) { _ = b.Close() }, block)
		return t, nil
	}

	collect := func(device int, size uint64) bool {
		if totals, err := allocator.DeviceTotals(device); err != nil || totals.Total-totals.Used >= size {
			return false // the driver has room
		}
		before := allocator.MemoryAllocated(device)
		runtime.GC() // cleanups run on a goroutine of their own, soon
		for range 1000 {
			if allocator.MemoryAllocated(device) < before {
				return true
			}
			time.Sleep(time.Millisecond)
		}
		return false
	}
	detach, _ := allocator.OnFreeMemory(collect)
	defer detach()

	for range 10 { // of which only one fits at a time
		if _, err := makeTensor(60 << 20); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("ten tensors, one after the other")
	// Output: ten tensors, one after the other
}
