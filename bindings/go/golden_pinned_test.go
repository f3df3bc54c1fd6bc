// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cachalot.io/go"
)

// The words of pinned memory. That of the driver "sim" is the system's: its addresses are not those of the file, and
// its calls name none. So addresses are printed as they lie in the ranges of the file, each of which stands for the
// memory that its first block begins. Which range a "host_free" gives back shows in the requests behind it only.

// pinnedRange is one that PyTorch's allocator got. shift is how far the library's lies behind it; 0: not known yet.
type pinnedRange struct {
	begin, size, shift uint64
}

func (s *script) pinnedMemory(word string, w *words) bool {
	a := s.allocator
	switch word {
	case "ha":
		id := w.signed()
		s.allocatePinned(id, w.number())
	case "hf":
		s.freePinned(w.signed())
	case "hr":
		block := s.pinned[w.signed()]
		s.recordPinned(block, w.stream(), 0)
	case "hr_at":
		block, stream := s.pinned[w.signed()], w.stream()
		s.recordPinned(block, stream, w.number())
	case "host_empty":
		s.did(a.EmptyPinnedCache())
	case "host_pool_begin":
		key := a.PinnedPoolAt(w.pool())
		s.did(key.Begin(0, w.route()))
	case "host_pool_end":
		s.did(a.PinnedPoolAt(w.pool()).End())
	case "host_pool_release":
		err := a.PinnedPoolAt(w.pool()).Release()
		// PyTorch's text for a pool that it does not know is a line of the C++ library.
		s.isTextExempt = errors.Is(err, cachalot.ErrInvalidArgument)
		s.did(err)
	case "host_sleep":
		time.Sleep(time.Duration(w.number()) * time.Millisecond)
	case "host_stats":
		s.answerPinnedStats()
	case "host_reset_peak":
		s.did(a.ResetPinnedPeakStats())
	case "host_reset_accumulated":
		s.did(a.ResetPinnedAccumulatedStats())
	default:
		return false
	}
	return true
}

func (s *script) allocatePinned(id int64, size uint64) {
	if size > math.MaxInt {
		s.isOperationExempt = true // The package refuses it by itself.
		return
	}
	block, err := s.allocator.AllocatePinnedOnStream(size, 0, s.current)
	if !s.did(err) {
		return
	}
	s.add(fmt.Sprintf("R %x", s.fileAddress(block.Address())))
	s.freePinned(id)
	s.pinned[id] = block
}

func (s *script) freePinned(id int64) {
	block := s.pinned[id]
	delete(s.pinned, id)
	if block != nil {
		s.did(block.Free())
	}
}

func (s *script) recordPinned(block *cachalot.PinnedBlock, stream cachalot.Stream, offset uint64) {
	if block == nil {
		return
	}
	if offset != 0 || block.Address() == 0 {
		s.isOperationExempt = true // Only a block can be recorded, at its beginning; one without memory asks nobody.
		return
	}
	if s.did(block.RecordStream(0, stream)) {
		s.answer("known")
	}
}

func (s *script) answerPinnedStats() {
	stats, err := s.allocator.PinnedStats()
	if !s.did(err) {
		return
	}
	s.add("= host_allocations " + statNumbers(stats.Allocations))
	s.add("= host_allocated_bytes " + statNumbers(stats.AllocatedBytes))
	s.add("= host_active_requests " + statNumbers(stats.ActiveRequests))
	s.add("= host_active_bytes " + statNumbers(stats.ActiveBytes))
	s.add(fmt.Sprintf("= host_counters alloc %d free %d alloc_times %d free_times %d", stats.Allocations.Allocated,
		stats.Allocations.Freed, stats.AllocateTimes.Count, stats.FreeTimes.Count))
}

// ---- Addresses ----

// readPinnedRanges reads the expected lines such as "D host_alloc 512 0 7f0000000000".
func (s *script) readPinnedRanges() {
	for _, line := range s.expected {
		w := &words{strings.TrimPrefix(line, "D ")}
		if call := w.next(); call != "host_alloc" && call != "host_register" {
			continue
		}
		size := w.number()
		w.next()
		if begin, err := strconv.ParseUint(w.next(), 16, 64); err == nil { // No failure.
			s.pinnedRanges = append(s.pinnedRanges, pinnedRange{begin: begin, size: size})
		}
	}
}

// fileAddress is what the file calls the address that a request got. The latest range counts: others may be gone.
func (s *script) fileAddress(address cachalot.Address) uint64 {
	for _, expected := range s.expectedAddresses("R ", "") {
		for i := range slices.Backward(s.pinnedRanges) {
			r := &s.pinnedRanges[i]
			if uint64(expected)-r.begin >= r.size {
				continue
			}
			if r.shift == 0 {
				r.shift = uint64(address) - r.begin
			}
			return uint64(address) - r.shift
		}
	}
	return uint64(address)
}

// pinnedCalls are the calls of pinned memory, and how many words of a line "sim" prints too.
var pinnedCalls = map[string]int{"host_alloc": 3, "host_register": 3, "host_free": 2, "host_unregister": 2}

// asSimPrints is an expected line in the words of "sim", to which an error 2 is an out of memory.
func asSimPrints(line string) string {
	if !strings.HasPrefix(line, "D host_") {
		return line
	}
	words := strings.Fields(line)
	call := strings.Join(words[:pinnedCalls[words[1]]], " ")
	failure := strings.Index(line, " error ")
	switch {
	case strings.HasSuffix(line, " oom"), strings.HasSuffix(line, " error 2"):
		return call + " oom"
	case failure >= 0:
		return call + line[failure:]
	}
	return call
}
