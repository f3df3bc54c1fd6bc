// SPDX-License-Identifier: MIT OR Apache-2.0

// Why "out of memory" although there is free memory: ten blocks are allocated, every second one is freed, a big one is
// asked for. First under the default options, under which it does not fit; then under those that the message advises.
// Runs on a simulated device of 80 MiB.
package main

import (
	"errors"
	"fmt"
	"log"

	"cachalot.io/go"
)

const mib = 1 << 20

func run(options cachalot.Options) error {
	device, err := cachalot.OpenSim(cachalot.SimOptions{Capacity: 80 * mib})
	if err != nil {
		return err
	}
	defer device.Close()
	allocator, err := cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions(options))
	if err != nil {
		return err
	}
	defer allocator.CloseAll()
	if err := allocateTenAndFreeEverySecond(allocator); err != nil {
		return err
	}
	_, err = allocator.Allocate(30*mib, 0, 0)
	var failed *cachalot.OutOfMemoryError
	isOutOfMemory := errors.As(err, &failed)
	switch {
	case isOutOfMemory:
		fmt.Println(err)
	case err != nil:
		return err
	default:
		fmt.Println("30 MiB fit.")
	}
	summary, err := allocator.MemorySummary(0, true)
	fmt.Printf("\n%s\n", summary)
	if err == nil && isOutOfMemory {
		err = explain(allocator, failed)
	}
	return err
}

func allocateTenAndFreeEverySecond(allocator *cachalot.Allocator) error {
	var blocks [10]*cachalot.Block
	for i := range blocks {
		block, err := allocator.Allocate(5*mib, 0, 0)
		if err != nil {
			return err
		}
		blocks[i] = block
	}
	for i := 1; i < len(blocks); i += 2 {
		if err := blocks[i].Close(); err != nil {
			return err
		}
	}
	return nil
}

// pieces are the free pieces of memory that the allocator holds: how many, and the largest.
func pieces(allocator *cachalot.Allocator) (count int, largest uint64, err error) {
	snapshot, err := allocator.Snapshot(cachalot.SnapshotOptions{WithoutHistory: true})
	if err != nil {
		return 0, 0, err
	}
	defer snapshot.Close()
	segments, err := snapshot.Segments()
	for _, segment := range segments {
		for _, block := range segment.Blocks {
			if block.State == cachalot.BlockInactive {
				count++
				largest = max(largest, block.Size)
			}
		}
	}
	return count, largest, err
}

func explain(allocator *cachalot.Allocator, failed *cachalot.OutOfMemoryError) error {
	count, largest, err := pieces(allocator)
	if err != nil {
		return err
	}
	stats, err := allocator.Stats(0)
	if err != nil {
		return err
	}
	fmt.Printf("%d MiB do not fit although %d MiB are cached and free.\n", failed.Requested/mib,
		(failed.Reserved-failed.Allocated)/mib)
	fmt.Printf("They are %d pieces, the largest of %d MiB, so none is big enough.\n", count, largest/mib)
	fmt.Printf("The device has %d MiB left: no room for a new segment of %d MiB.\n", failed.DeviceFree/mib,
		failed.SegmentSize/mib)
	fmt.Printf("%d MiB cannot go back to the device: live blocks lie in the same segments.\n",
		stats.InactiveSplitBytes.All.Current/mib)
	return nil
}

func main() {
	for _, options := range []cachalot.Options{"", "expandable_segments:True"} {
		fmt.Printf("options: %q\n\n", options)
		if err := run(options); err != nil {
			log.Fatal(err)
		}
	}
}
