// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"fmt"

	"cachalot.io/go/internal/raw"
)

// SharedBlock is a block that other processes of this user can open by its ticket. It is freed when it is closed and
// no process has it open any more, however those processes end. It keeps its allocator from being collected. Any
// goroutine may use and close it.
type SharedBlock struct {
	allocator *Allocator
	address   Address
	raw       raw.SharedBlock
	gate      *gate
}

// Share lets other processes open the block, which is the shared block's from now on: it counts as closed.
// ErrNotSupported for memory that its driver, or Backend("cudaMallocAsync"), cannot share. After an error the block is
// there as before.
func (b *Block) Share() (*SharedBlock, error) {
	if !b.take() {
		return nil, closedError("block")
	}
	shared, err := ask(b.allocator, func(r raw.Allocator) (raw.SharedBlock, error) {
		return raw.SharedBlockCreate(r, raw.Address(b.address))
	})
	if err != nil {
		b.watch()
		b.gone.Store(false)
		return nil, err
	}
	s := &SharedBlock{allocator: b.allocator, address: b.address, raw: shared, gate: newGate("shared block", 1)}
	watchWithin(s, s.gate, s.allocator.gate)
	return s, nil
}

// Address is the block's first byte in this process.
func (s *SharedBlock) Address() Address { return s.address }

// Allocator is whose block it is.
func (s *SharedBlock) Allocator() *Allocator { return s.allocator }

// Ticket is the text by which other processes open the block: a secret.
func (s *SharedBlock) Ticket() (string, error) {
	c, err := s.gate.enter()
	if err != nil {
		return "", err
	}
	defer c.leave()
	return raw.SharedBlockTicket(s.raw)
}

// Users is how often the block is open; 0 once it is closed.
func (s *SharedBlock) Users() int {
	c, err := s.gate.enter()
	if err != nil {
		return 0
	}
	defer c.leave()
	return int(raw.SharedBlockUsers(s.raw))
}

// Close ends the sharing: nobody can open the block any more, and it is freed when nobody has it open. Until then its
// allocator has a live block. Again: nothing.
func (s *SharedBlock) Close() error {
	return s.gate.close(func() error {
		raw.SharedBlockDestroy(s.raw)
		return nil
	})
}

// String has the address.
func (s *SharedBlock) String() string {
	return fmt.Sprintf("SharedBlock(%#x%s)", uint64(s.address), s.gate.closedMark())
}

// OpenedBlock is a block of another process, which stays there until it is closed. It keeps its allocator from being
// collected. Any goroutine may use and close it.
type OpenedBlock struct {
	allocator *Allocator
	address   Address
	size      uint64
	raw       raw.OpenedBlock
	gate      *gate
}

// OpenBlock opens a block that another process shares, on a device of this allocator. The caller closes it.
// ErrInvalidArgument for a text that is no ticket, ErrInvalidState where the block or its process is gone.
func (a *Allocator) OpenBlock(device int, ticket string) (*OpenedBlock, error) {
	if err := checkText(ticket); err != nil {
		return nil, err
	}
	opened, err := ask(a, func(r raw.Allocator) (raw.OpenedBlock, error) {
		return raw.OpenedBlockCreate(r, narrow(device), ticket)
	})
	if err != nil {
		return nil, err
	}
	address, size, err := raw.OpenedBlockAddress(opened)
	if err != nil {
		raw.OpenedBlockDestroy(opened)
		return nil, err
	}
	o := &OpenedBlock{allocator: a, address: Address(address), size: size, raw: opened,
		gate: newGate("opened block", 1)}
	watchWithin(o, o.gate, a.gate)
	return o, nil
}

// Address is the block's first byte in this process.
func (o *OpenedBlock) Address() Address { return o.address }

// Size is what was requested where the block is from, in bytes.
func (o *OpenedBlock) Size() uint64 { return o.size }

// Allocator is that which has opened it.
func (o *OpenedBlock) Allocator() *Allocator { return o.allocator }

// HasSharer says whether the process that shares the block is still there.
func (o *OpenedBlock) HasSharer() bool {
	c, err := o.gate.enter()
	if err != nil {
		return false
	}
	defer c.leave()
	return raw.OpenedBlockHasSharer(o.raw) != 0
}

// Bytes is the memory of a block of the driver "host". The slice is C's memory: it must not be used once the block is
// closed, which nothing checks. ErrNotSupported for other drivers.
func (o *OpenedBlock) Bytes() ([]byte, error) {
	c, err := o.gate.enter()
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if err := o.allocator.requireHost(); err != nil {
		return nil, err
	}
	return raw.Bytes(raw.Address(o.address), o.size), nil
}

// Close waits for the work of the device, and closes the block. Again: nothing.
func (o *OpenedBlock) Close() error {
	return o.gate.close(func() error {
		raw.OpenedBlockDestroy(o.raw)
		return nil
	})
}

// String has address and size.
func (o *OpenedBlock) String() string {
	return fmt.Sprintf("OpenedBlock(%#x, %d bytes%s)", uint64(o.address), o.size, o.gate.closedMark())
}

// SharedHandle is what another process, also one of PyTorch's, needs to open the memory under a block. It says nothing
// of lifetimes: the process that shares the block keeps it.
type SharedHandle struct {
	// Data is in PyTorch's bytes.
	Data []byte `json:"data"`
	// Offset of the block in that memory, in bytes.
	Offset uint64 `json:"offset"`
}

// Share describes the memory under a block for another process. ErrInvalidArgument for an address that is no live
// block, ErrNotSupported for memory that cannot be shared.
func (a *Allocator) Share(address Address) (shared SharedHandle, err error) {
	err = a.do(func(r raw.Allocator) error {
		shared.Data, shared.Offset, err = raw.Share(r, raw.Address(address))
		return err
	})
	return shared, err
}

// OpenedMemory is memory of another process that was opened by a SharedHandle. Any goroutine may close it.
type OpenedMemory struct {
	allocator *Allocator
	memory    Address
	offset    uint64
	gate      *gate
}

// OpenShared opens memory that another process shares. The caller closes it. ErrInvalidArgument for bytes that are no
// handle, ErrInvalidState where the process is gone or may not be asked, ErrDriver where the memory is gone.
func (a *Allocator) OpenShared(device int, shared SharedHandle) (*OpenedMemory, error) {
	memory, err := ask(a, func(r raw.Allocator) (raw.Address, error) {
		return raw.OpenShared(r, narrow(device), shared.Data)
	})
	if err != nil {
		return nil, err
	}
	m := &OpenedMemory{allocator: a, memory: Address(memory), offset: shared.Offset, gate: newGate("opened memory", 1)}
	watchWithin(m, m.gate, a.gate)
	return m, nil
}

// Address is the block's first byte in this process.
func (m *OpenedMemory) Address() Address { return m.memory + Address(m.offset) }

// Close closes the memory once each of its users has. The work on a plain segment has to be done by then, as in
// PyTorch. Again, or after its allocator: nothing.
func (m *OpenedMemory) Close() error {
	return m.gate.close(unlessGone(func() error {
		return m.allocator.do(func(r raw.Allocator) error { return raw.CloseShared(r, raw.Address(m.memory)) })
	}))
}

// String has the address.
func (m *OpenedMemory) String() string {
	return fmt.Sprintf("OpenedMemory(%#x%s)", uint64(m.Address()), m.gate.closedMark())
}
