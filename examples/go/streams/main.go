// SPDX-License-Identifier: MIT OR Apache-2.0

// Two streams: a block that another stream still reads is not handed out again before that is done. Runs on a
// simulated device, where work is done when the program says so.
package main

import (
	"fmt"
	"log"

	"cachalot.io/go"
)

const (
	compute = cachalot.Stream(0x10)
	copying = cachalot.Stream(0x20)
)

func run() error {
	device, err := cachalot.OpenSim(cachalot.SimOptions{Capacity: 1 << 30})
	if err != nil {
		return err
	}
	defer device.Close()
	allocator, err := cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions(""))
	if err != nil {
		return err
	}
	defer allocator.CloseAll()

	// Blocks of one stream follow each other without waiting: its work is in order anyway.
	first, err := allocator.Allocate(8<<20, 0, compute)
	if err != nil {
		return err
	}
	first.Close()
	second, err := allocator.Allocate(8<<20, 0, compute)
	if err != nil {
		return err
	}
	fmt.Println("the same memory at once for the same stream:", first.Address() == second.Address())
	second.Close()

	// A copy on another stream reads the block; it is freed before the copy is done.
	block, err := allocator.Allocate(8<<20, 0, compute)
	if err != nil {
		return err
	}
	if err := device.QueueWork(0, copying); err != nil {
		return err
	}
	if err := block.RecordStream(copying); err != nil {
		return err
	}
	block.Close()
	meanwhile, err := allocator.Allocate(8<<20, 0, compute)
	if err != nil {
		return err
	}
	fmt.Println("the same memory while the copy runs:", meanwhile.Address() == block.Address())

	if err := device.FinishStream(0, copying); err != nil {
		return err
	}
	afterwards, err := allocator.Allocate(8<<20, 0, compute)
	if err != nil {
		return err
	}
	fmt.Println("the same memory after the copy:", afterwards.Address() == block.Address())
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
