// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"cachalot.io/go/internal/raw"
)

// Block is memory that was handed out, with its owner: closing frees it. It keeps its allocator from being
// collected. Any goroutine may use and close it; but a use that comes while another goroutine closes it may meet memory
// that is somebody else's already, so the last use ends before Close begins, as with any memory.
type Block struct {
	allocator *Allocator
	address   Address
	size      uint64
	gone      atomic.Bool
}

func newBlock(a *Allocator, address Address, size uint64) *Block {
	b := &Block{allocator: a, address: address, size: size}
	b.watch()
	return b
}

// watch lets the collector report a block that nobody closed.
func (b *Block) watch() {
	if b.allocator.tracksBlocks && b.address != 0 {
		runtime.SetFinalizer(b, (*Block).report)
	}
}

func (b *Block) report() {
	reportUnlessEnded(b.allocator.gate, Leak{Kind: "block", Address: b.address, Size: b.size})
}

// Address is the block's first byte; 0 for a request of 0 bytes. It is that of the block also when the block is
// closed, and must not be used then.
func (b *Block) Address() Address {
	return b.address
}

// Size is what was requested, in bytes.
func (b *Block) Size() uint64 {
	return b.size
}

// Allocator is whose block it is.
func (b *Block) Allocator() *Allocator {
	return b.allocator
}

// check is for methods that do not free.
func (b *Block) check() error {
	if b.gone.Load() {
		return closedError("block")
	}
	return nil
}

// Info is what is known of the block. ErrInvalidArgument for an empty one, which has no memory.
func (b *Block) Info() (BlockInfo, error) {
	if err := b.check(); err != nil {
		return BlockInfo{}, err
	}
	return b.allocator.BlockAt(b.address)
}

// RecordStream says that work on another stream uses the block: after its free it stays out of use until the work
// that is queued on that stream by then is done. The stream is one of the block's device; its own is ignored.
func (b *Block) RecordStream(stream Stream) error {
	if err := b.check(); err != nil {
		return err
	}
	return b.allocator.RecordStream(b.address, stream)
}

// Bytes is the memory of a block of the driver "host", as many bytes as were requested. The slice is C's memory: it
// must not be used once the block is closed, which nothing checks. ErrNotSupported for memory that this driver did not
// give: of any other driver, or of a pool with a source of its own.
func (b *Block) Bytes() ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	c, err := b.allocator.gate.enter()
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if err := b.allocator.requireHost(); err != nil {
		return nil, err
	}
	if b.address == 0 {
		return []byte{}, nil
	}
	info, err := b.allocator.BlockAt(b.address)
	if err != nil {
		return nil, err
	}
	if info.FromSource {
		return nil, notBytes(fmt.Sprintf("the block at %#x is no bytes: the source of its pool gave its memory", b.address))
	}
	return raw.Bytes(raw.Address(b.address), b.size), nil
}

func (a *Allocator) requireHost() error {
	if !a.isHost {
		return notBytes("only blocks of the driver host are bytes")
	}
	return nil
}

func notBytes(why string) error {
	return &Error{Status: int(raw.ERROR_NOT_SUPPORTED), Message: why}
}

// take ends the ownership; of several callers one gets true.
func (b *Block) take() bool {
	if !b.gone.CompareAndSwap(false, true) {
		return false
	}
	if b.allocator.tracksBlocks {
		runtime.SetFinalizer(b, nil)
	}
	return true
}

// Close frees the block. Again, or after its allocator: nothing. If freeing fails (from within a callback under a
// lock, say) the block is there as before. While another goroutine closes the allocator it waits for whether that is
// refused.
func (b *Block) Close() error {
	return b.free(func() error { return b.allocator.Free(b.address) })
}

// CloseOnStream is Close, made while current is the thread's current stream (matters during captures).
func (b *Block) CloseOnStream(current Stream) error {
	return b.free(func() error { return b.allocator.FreeOnStream(b.address, current) })
}

func (b *Block) free(free func() error) error {
	if !b.take() {
		return nil
	}
	err := free()
	if err != nil && !isClosed(err) {
		b.watch() // Before anybody else can take it, who will end the watch.
		b.gone.Store(false)
		return err
	}
	return nil
}

// Leak gives the block up: its address is the caller's to free (Allocator.Free) or to Adopt. ErrClosed if the block
// is closed.
func (b *Block) Leak() (Address, error) {
	if !b.take() {
		return 0, closedError("block")
	}
	return b.address, nil
}

// String has the address.
func (b *Block) String() string {
	state := ""
	if b.gone.Load() {
		state = ", closed"
	}
	return fmt.Sprintf("Block(%#x, %d bytes%s)", uint64(b.address), b.size, state)
}
