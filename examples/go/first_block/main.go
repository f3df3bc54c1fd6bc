// SPDX-License-Identifier: MIT OR Apache-2.0

// The first block: make an allocator, get a mebibyte, give it back.
package main

import (
	"fmt"
	"log"

	"cachalot.io/go"
)

func main() {
	allocator, err := cachalot.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer allocator.Close()
	block, err := allocator.Allocate(1<<20, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer block.Close()
	fmt.Printf("1 MiB at %#x on device 0\n", block.Address())
}
