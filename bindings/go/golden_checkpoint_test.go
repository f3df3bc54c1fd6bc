// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"fmt"
	"slices"
	"strings"

	"cachalot.io/go"
)

// The words of checkpoints. PyTorch frees blocks and puts segments back in the order of a table of pointers, which
// differs from run to run. So the expected lines say the order, and the library is given it.

func (s *script) checkpoint(word string, w *words) bool {
	switch word {
	case "checkpoint":
		name := w.next()
		if taken, err := s.allocator.PoolAt(0, w.pool()).Checkpoint(); s.did(err) {
			s.checkpoints[name] = taken
		}
	case "restore":
		name := w.next()
		s.restore(name, w.signed())
	default:
		return false
	}
	return true
}

// restore puts a pool back; id is that of the first block that is handed out again.
func (s *script) restore(name string, id int64) {
	checkpoint, known := s.checkpoints[name]
	if !known {
		s.isOperationExempt = true // It could not be taken. The oracle has an error of its own.
		return
	}
	freed := s.freeAsExpected()
	changes, err := s.allocator.ApplyCheckpoint(0, s.inExpectedOrder(checkpoint))
	if !s.did(err) {
		return
	}
	for _, address := range append(freed, changes.Freed...) {
		s.add(fmt.Sprintf("X freed %x", uint64(address)))
		s.giveUp(address)
	}
	for _, address := range changes.Created {
		s.add(fmt.Sprintf("X created %x", uint64(address)))
		block, err := s.allocator.Adopt(address)
		must(err)
		s.live[id], s.last[id] = block, address
		id++
	}
}

// freeAsExpected: PyTorch's restore begins with the frees of all blocks of the pool.
func (s *script) freeAsExpected() (freed []cachalot.Address) {
	for _, address := range s.expectedAddresses("T free_requested ", "T alloc ") {
		for id, block := range s.live {
			if block.Address() == address {
				s.freeLive(id)
				freed = append(freed, address)
				break
			}
		}
	}
	return freed
}

// giveUp: a restore frees blocks whoever has them.
func (s *script) giveUp(address cachalot.Address) {
	for id, block := range s.live {
		if block.Address() == address {
			_, err := block.Leak()
			must(err)
			delete(s.live, id)
		}
	}
}

// inExpectedOrder: segments by the hand-outs of their first blocks, and behind them the one that was not found.
// Those of which nothing is expected come last.
func (s *script) inExpectedOrder(checkpoint cachalot.Checkpoint) cachalot.Checkpoint {
	order := append(s.expectedAddresses("T alloc ", ""), s.expectedAddresses("E error  could not find ", "")...)
	place := func(segment []cachalot.CheckpointBlock) int {
		if found := slices.Index(order, segment[0].Address); found >= 0 {
			return found
		}
		return len(order)
	}
	segments := slices.Clone(checkpoint.Segments)
	slices.SortStableFunc(segments, func(a, b []cachalot.CheckpointBlock) int { return place(a) - place(b) })
	return cachalot.Checkpoint{Pool: checkpoint.Pool, Segments: segments}
}

// expectedAddresses are those behind lines that begin so, up to the first that begins as the other text, if there is
// one.
func (s *script) expectedAddresses(start, until string) (addresses []cachalot.Address) {
	for _, line := range s.expected {
		if until != "" && strings.HasPrefix(line, until) {
			break
		}
		if rest, ok := strings.CutPrefix(line, start); ok {
			address, _, _ := strings.Cut(rest, " ")
			addresses = append(addresses, cachalot.Address(hex(address)))
		}
	}
	return addresses
}
