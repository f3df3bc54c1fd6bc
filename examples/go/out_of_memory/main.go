// SPDX-License-Identifier: MIT OR Apache-2.0

// Out of memory although there is free memory, and what the report says of it. Runs on a simulated device of 80 MiB.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"cachalot.io/go"
)

const mib = 1 << 20

func run() error {
	device, err := cachalot.OpenSim(cachalot.SimOptions{Capacity: 80 * mib})
	if err != nil {
		return err
	}
	defer device.Close()
	allocator, err := cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions(""),
		cachalot.TrackLabels())
	if err != nil {
		return err
	}
	defer allocator.CloseAll()

	if err := fragment(allocator); err != nil {
		return err
	}
	_, err = allocator.Allocate(30*mib, 0, 0)
	var failed *cachalot.OutOfMemoryError
	if !errors.As(err, &failed) {
		return fmt.Errorf("it fits, or another error came: %w", err)
	}
	fmt.Println(err)
	fmt.Printf("\n%d MiB do not fit although %d are cached\n\n", failed.Requested/mib,
		(failed.Reserved-failed.Allocated)/mib)
	report, err := allocator.Report(failed.ReportOptions())
	if err != nil {
		return err
	}
	defer report.Close()
	text, err := report.Text()
	fmt.Print(text)
	return err
}

// fragment allocates ten blocks under a label, and frees every second one.
func fragment(allocator *cachalot.Allocator) error {
	ctx := cachalot.WithLabel(context.Background(), "activations")
	var blocks []*cachalot.Block
	for range 10 {
		block, err := allocator.AllocateWith(ctx, cachalot.Request{Size: 5 * mib})
		if err != nil {
			return err
		}
		blocks = append(blocks, block)
	}
	for i := 1; i < len(blocks); i += 2 {
		if err := blocks[i].Close(); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
