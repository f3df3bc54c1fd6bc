// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"context"
	"testing"

	"cachalot.io/go"
	"cachalot.io/go/internal/raw"
)

// What an allocation and its free cost on a hit, beside a crossing into C that does nothing:
//
//	go test -run '^$' -bench . -count 10 | tee new.txt
//	go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da new.txt

// Of each batch benchmark one operation is so many pairs.
const pairs = 64

// BenchmarkEmptyCall is one crossing into C and back.
func BenchmarkEmptyCall(b *testing.B) {
	for b.Loop() {
		raw.Nothing()
	}
}

func eachSize(b *testing.B, run func(b *testing.B, a *cachalot.Allocator, size uint64)) {
	for _, size := range []struct {
		name  string
		bytes uint64
	}{{"size=4KiB", 4 << 10}, {"size=4MiB", 4 << 20}} {
		b.Run(size.name, func(b *testing.B) {
			a := simulated(b)
			works(b, block(b, a, size.bytes, 0).Close())
			b.ReportAllocs()
			run(b, a, size.bytes)
		})
	}
}

// BenchmarkBlock is a Block that is closed.
func BenchmarkBlock(b *testing.B) {
	eachSize(b, func(b *testing.B, a *cachalot.Allocator, size uint64) {
		for b.Loop() {
			block, err := a.Allocate(size, 0, 0)
			if err != nil || block.Close() != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAddress is AllocateAddress and Free.
func BenchmarkAddress(b *testing.B) {
	eachSize(b, func(b *testing.B, a *cachalot.Allocator, size uint64) {
		for b.Loop() {
			address, err := a.AllocateAddress(size, 0, 0)
			if err != nil || a.Free(address) != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkBatch is AllocateAddresses and FreeAddresses of 64 blocks that are live at the same time.
func BenchmarkBatch(b *testing.B) {
	eachSize(b, func(b *testing.B, a *cachalot.Allocator, size uint64) {
		sizes, addresses := make([]uint64, pairs), make([]cachalot.Address, pairs)
		for i := range sizes {
			sizes[i] = size
		}
		for b.Loop() {
			if a.AllocateAddresses(addresses, sizes, 0, 0) != nil || a.FreeAddresses(addresses) != nil {
				b.Fatal("it failed")
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pairs, "ns/pair")
	})
}

// BenchmarkSingles is the same blocks as of BenchmarkBatch, one call each.
func BenchmarkSingles(b *testing.B) {
	eachSize(b, func(b *testing.B, a *cachalot.Allocator, size uint64) {
		addresses := make([]cachalot.Address, pairs)
		for b.Loop() {
			for i := range addresses {
				addresses[i], _ = a.AllocateAddress(size, 0, 0)
			}
			for _, address := range addresses {
				if a.Free(address) != nil {
					b.Fatal("it failed")
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pairs, "ns/pair")
	})
}

// BenchmarkLabel is a Block under a label of a context.
func BenchmarkLabel(b *testing.B) {
	ctx := cachalot.WithLabel(context.Background(), "kv-cache")
	eachSize(b, func(b *testing.B, a *cachalot.Allocator, size uint64) {
		for b.Loop() {
			block, err := a.AllocateWith(ctx, cachalot.Request{Size: size})
			if err != nil || block.Close() != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkParallel is AllocateAddress and Free on all processors, each with a stream of its own.
func BenchmarkParallel(b *testing.B) {
	a := simulated(b)
	streams := make(chan cachalot.Stream, 1024)
	for i := range cap(streams) {
		streams <- cachalot.Stream(i)
	}
	b.RunParallel(func(pb *testing.PB) {
		stream := <-streams
		for pb.Next() {
			address, err := a.AllocateAddress(4<<10, 0, stream)
			if err != nil || a.Free(address) != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkTrackedBlock is a Block of an allocator with TrackBlocks.
func BenchmarkTrackedBlock(b *testing.B) {
	a := simulated(b, cachalot.TrackBlocks())
	for b.Loop() {
		block, err := a.Allocate(4<<10, 0, 0)
		if err != nil || block.Close() != nil {
			b.Fatal(err)
		}
	}
}
