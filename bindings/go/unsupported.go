// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// What PyTorch has and this version has not: each function checks its arguments, changes nothing and is
// ErrNotSupported.

// SharedBlock is what another process needs to open a block.
type SharedBlock struct {
	Data []byte
	// Offset of the block in what Data opens, in bytes.
	Offset uint64
}

// Share describes a block for another process. ErrNotSupported in this version.
func (a *Allocator) Share(address Address) (shared SharedBlock, err error) {
	err = a.do(func(r raw.Allocator) error {
		shared.Data, shared.Offset, err = raw.Share(r, raw.Address(address))
		return err
	})
	return shared, err
}

// OpenShared opens memory that another process shares. ErrNotSupported in this version.
func (a *Allocator) OpenShared(device int, shared SharedBlock) (Address, error) {
	address, err := ask(a, func(r raw.Allocator) (raw.Address, error) {
		return raw.OpenShared(r, narrow(device), shared.Data)
	})
	if err != nil {
		return 0, err
	}
	return Address(address) + Address(shared.Offset), nil
}

// Copy copies size bytes between devices on a stream. ErrNotSupported in this version.
func (a *Allocator) Copy(to Address, toDevice int, from Address, fromDevice int, size uint64, stream Stream) error {
	return a.do(func(r raw.Allocator) error {
		return raw.Copy(r, raw.Address(to), narrow(toDevice), raw.Address(from), narrow(fromDevice), size,
			raw.Stream(stream))
	})
}
