// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// CheckpointBlock is one block of a checkpoint. Bytes.
type CheckpointBlock struct {
	Address Address `json:"address"`
	Size    uint64  `json:"size"`
	// Stream is that which the memory of its segment was obtained for.
	Stream Stream `json:"stream"`
	// IsUsed: it is handed out.
	IsUsed bool `json:"is_used"`
	// IsMapped false: addresses at the end of an expandable segment that have no pages. They are not put back.
	IsMapped bool `json:"is_mapped"`
}

// Checkpoint is the blocks of a private pool at one moment, to be put back later: of each segment all blocks, by
// address. Segments are put back in their order.
type Checkpoint struct {
	Pool     PoolID              `json:"pool"`
	Segments [][]CheckpointBlock `json:"segments"`
}

// CheckpointChanges is what putting a pool back has done.
type CheckpointChanges struct {
	// Freed are the blocks that were handed out before, in the order of their frees.
	Freed []Address
	// Created are the blocks that are handed out now.
	Created []Address
}

// Checkpoint takes one of the pool. ErrInvalidArgument for an unknown pool, ErrInvalidState while a freed block of it
// waits for a stream.
func (k PoolKey) Checkpoint() (checkpoint Checkpoint, err error) {
	err = k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		taken, err := raw.CheckpointTake(r, device, id)
		if err != nil {
			return err
		}
		defer raw.CheckpointDestroy(taken)
		checkpoint, err = checkpointOf(taken)
		return err
	})
	return checkpoint, err
}

func checkpointOf(taken raw.Checkpoint) (checkpoint Checkpoint, err error) {
	id, err := raw.CheckpointPool(taken)
	if err != nil {
		return Checkpoint{}, err
	}
	checkpoint.Pool = PoolID(id)
	for i := range raw.CheckpointRowCount(taken) {
		row, err := raw.CheckpointRowAt(taken, i)
		if err != nil {
			return Checkpoint{}, err
		}
		if row.Segment == uint64(len(checkpoint.Segments)) {
			checkpoint.Segments = append(checkpoint.Segments, nil)
		}
		checkpoint.Segments[row.Segment] = append(checkpoint.Segments[row.Segment], CheckpointBlock{
			Address: Address(row.Address), Size: row.Size, Stream: Stream(row.Stream), IsUsed: row.IsUsed != 0,
			IsMapped: row.IsMapped != 0,
		})
	}
	return checkpoint, nil
}

// ApplyCheckpoint puts a private pool of a device back: all its blocks are freed, and those of the checkpoint are
// handed out again, at their addresses. A Block that the program has of the pool is not to be used any more, nor freed:
// free Created by their addresses. ErrInvalidState where the pool is not as the checkpoint needs it, and nothing has
// changed.
func (a *Allocator) ApplyCheckpoint(device int, checkpoint Checkpoint) (changes CheckpointChanges, err error) {
	err = a.do(func(r raw.Allocator) error {
		made, err := rawCheckpoint(checkpoint)
		if err != nil {
			return err
		}
		defer raw.CheckpointDestroy(made)
		applied, err := raw.CheckpointApply(r, narrow(device), made)
		if err != nil {
			return err
		}
		defer raw.CheckpointChangesDestroy(applied)
		if changes.Freed, err = addressesOf(applied, raw.CheckpointFreedCount, raw.CheckpointFreedAt); err != nil {
			return err
		}
		changes.Created, err = addressesOf(applied, raw.CheckpointCreatedCount, raw.CheckpointCreatedAt)
		return err
	})
	return changes, err
}

// The caller destroys it.
func rawCheckpoint(checkpoint Checkpoint) (raw.Checkpoint, error) {
	made, err := raw.CheckpointCreate(raw.PoolId(checkpoint.Pool))
	if err != nil {
		return nil, err
	}
	for segment, blocks := range checkpoint.Segments {
		for _, b := range blocks {
			row := raw.CheckpointRow{
				Address: raw.Address(b.Address), Size: b.Size, Stream: raw.Stream(b.Stream),
				Segment: uint64(segment), IsUsed: flag(b.IsUsed), IsMapped: flag(b.IsMapped),
			}
			if err := raw.CheckpointAdd(made, &row); err != nil {
				raw.CheckpointDestroy(made)
				return nil, err
			}
		}
	}
	return made, nil
}

func addressesOf(changes raw.CheckpointChanges, count func(raw.CheckpointChanges) uint64,
	at func(raw.CheckpointChanges, uint64) (raw.Address, error)) (addresses []Address, err error) {
	for i := range count(changes) {
		address, err := at(changes, i)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, Address(address))
	}
	return addresses, nil
}
