// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"fmt"
	"unsafe"

	"cachalot.io/go/internal/raw"
)

// AllocateAddress is Allocate without an owner: it costs no object, and the address is the caller's to free (Free,
// FreeAddresses) or to Adopt. 0 for 0 bytes.
func (a *Allocator) AllocateAddress(size uint64, device int, stream Stream) (Address, error) {
	c, err := a.gate.enter()
	if err != nil {
		return 0, err
	}
	defer c.leave()
	address, err := raw.Allocate(a.raw, size, narrow(device), raw.Stream(stream))
	return Address(address), wrap(err)
}

// Free gives a block without an owner back to the cache. It is reused at once on its own stream, and after
// RecordStream only when the work recorded there is done. 0 does nothing; ErrInvalidArgument for an address that is
// not that of a live block: nothing has changed.
func (a *Allocator) Free(address Address) error {
	c, err := a.gate.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	return wrap(raw.Free(a.raw, raw.Address(address)))
}

// FreeOnStream is Free, made while current is the thread's current stream (matters during captures).
func (a *Allocator) FreeOnStream(address Address, current Stream) error {
	return a.do(func(r raw.Allocator) error {
		return raw.FreeOnStream(r, raw.Address(address), raw.Stream(current))
	})
}

// AllocateAddresses is AllocateAddress for each size, in one crossing into C: addresses gets as many. Either all
// are handed out or none. ErrInvalidArgument if there are not as many addresses as sizes.
func (a *Allocator) AllocateAddresses(addresses []Address, sizes []uint64, device int, stream Stream) error {
	if len(addresses) != len(sizes) {
		return argumentError("there are not as many addresses as sizes")
	}
	return a.do(func(r raw.Allocator) error {
		return raw.AllocateBatch(r, sizes, narrow(device), raw.Stream(stream), rawAddresses(addresses))
	})
}

// FreeAddresses is Free for each address, in one crossing into C. All that can be freed are; where some cannot the
// error is a *BatchError about the first of these, which has the error of its Free inside.
func (a *Allocator) FreeAddresses(addresses []Address) error {
	return a.do(func(r raw.Allocator) error {
		freed, failed, err := raw.FreeBatch(r, rawAddresses(addresses))
		if err != nil {
			return &BatchError{Index: failed, Address: addresses[failed], Freed: freed, err: wrap(err)}
		}
		return nil
	})
}

// BatchError is what FreeAddresses could not free, for errors.As.
type BatchError struct {
	// Index is that of the first address that could not be freed, and Address the one there.
	Index   int
	Address Address
	// Freed is how many of all were freed.
	Freed int

	err error
}

// Error has the text of the Free.
func (e *BatchError) Error() string {
	return fmt.Sprintf("address %d (%#x): %v", e.Index, uint64(e.Address), e.err)
}

// Unwrap gives the error of the Free.
func (e *BatchError) Unwrap() error {
	return e.err
}

// rawAddresses is the same slice under the other name of its type.
func rawAddresses(addresses []Address) []raw.Address {
	return unsafe.Slice((*raw.Address)(unsafe.SliceData(addresses)), len(addresses))
}

// Adopt makes an owner for a live block that has none, from AllocateAddress, Block.Leak or C. ErrInvalidArgument
// for any other address but 0, which is an empty block. A block must not get two owners.
func (a *Allocator) Adopt(address Address) (*Block, error) {
	if address == 0 {
		if err := a.do(func(raw.Allocator) error { return nil }); err != nil {
			return nil, err
		}
		return newBlock(a, 0, 0), nil
	}
	info, err := a.BlockAt(address)
	if err != nil {
		return nil, err
	}
	return newBlock(a, address, info.Requested), nil
}
