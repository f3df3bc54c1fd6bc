// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"fmt"
	"strings"

	"cachalot.io/go"
)

// The answers to a script's questions, printed as the oracle prints them.

func statNumbers(s cachalot.Stat) string {
	return fmt.Sprintf("%d %d %d %d", s.Current, s.Peak, s.Allocated, s.Freed)
}

func (s *script) byKind(name string, stats cachalot.StatArray) {
	s.add("= " + name + ".all " + statNumbers(stats.All))
	s.add("= " + name + ".small_pool " + statNumbers(stats.SmallPool))
	s.add("= " + name + ".large_pool " + statNumbers(stats.LargePool))
}

func (s *script) answerStats() {
	stats, err := s.allocator.Stats(0)
	if !s.did(err) {
		return
	}
	s.byKind("allocation", stats.Allocation)
	s.byKind("segment", stats.Segment)
	s.byKind("active", stats.Active)
	s.byKind("inactive_split", stats.InactiveSplit)
	s.byKind("allocated_bytes", stats.AllocatedBytes)
	s.byKind("reserved_bytes", stats.ReservedBytes)
	s.byKind("active_bytes", stats.ActiveBytes)
	s.byKind("inactive_split_bytes", stats.InactiveSplitBytes)
	s.byKind("requested_bytes", stats.RequestedBytes)
	s.add("= oversize_allocations " + statNumbers(stats.OversizeAllocations))
	s.add("= oversize_segments " + statNumbers(stats.OversizeSegments))
	s.add(fmt.Sprintf("= counters retries %d ooms %d syncs %d device_alloc %d device_free %d max_split %d",
		stats.NumAllocRetries, stats.NumOOMs, stats.NumSyncAllStreams, stats.NumDeviceAlloc, stats.NumDeviceFree,
		stats.MaxSplitSize))
	if s.release != cachalot.Release2_15 {
		return
	}
	s.add(fmt.Sprintf("= rejections %d", stats.NumOOMRejections))
	rows, err := s.allocator.PoolStats(0)
	s.did(err)
	for _, row := range rows {
		s.byKind(fmt.Sprintf("reserved_bytes_by_private_pools.%d,%d", row.Pool.First, row.Pool.Second),
			row.ReservedBytes)
	}
}

// contextMark: a context is the number of the operation that it was captured in.
func (s *script) contextMark(context uint64) string {
	switch {
	case !s.log["context"]:
		return ""
	case context == 0:
		return " no line"
	}
	return fmt.Sprintf(" line %d", context)
}

func (s *script) answerSnapshot(pool cachalot.PoolID) {
	snapshot, err := s.allocator.Snapshot(cachalot.SnapshotOptions{Pool: pool, WithoutHistory: true})
	if !s.did(err) {
		return
	}
	segments, err := snapshot.Segments()
	must(err)
	must(snapshot.Close())
	states := map[cachalot.BlockState]string{cachalot.BlockAllocated: "allocated",
		cachalot.BlockPendingFree: "pending", cachalot.BlockInactive: "free"}
	for _, g := range segments {
		s.add(fmt.Sprintf("# seg %x %d %x%s pool %d,%d requested %d allocated %d active %d%s%s", uint64(g.Address),
			g.TotalSize, uint64(g.Stream), segmentMarks(g), g.Pool.First, g.Pool.Second, g.RequestedSize,
			g.AllocatedSize, g.ActiveSize, s.counterMark(g.Number), s.contextMark(g.Context)))
		for _, b := range g.Blocks {
			s.add(fmt.Sprintf("# blk %d %d %s%s", b.Size, b.RequestedSize, states[b.State], s.contextMark(b.Context)))
		}
	}
}

func segmentMarks(g cachalot.Segment) string {
	marks := " small"
	if g.IsLarge {
		marks = " large"
	}
	if g.IsExpandable {
		marks += " expandable"
	}
	return marks
}

func (s *script) counterMark(number int64) string {
	if !s.log["counter"] {
		return ""
	}
	return fmt.Sprintf(" counter %d", number)
}

func (s *script) answerHistory() {
	entries, err := s.allocator.History(0)
	s.did(err)
	for _, entry := range entries {
		s.add("# trace " + entryText(entry) + s.contextMark(entry.Context) + s.metadataMarks(entry))
	}
}

func (s *script) answerSettings() {
	snapshot, err := s.allocator.Snapshot(cachalot.SnapshotOptions{})
	if !s.did(err) {
		return
	}
	settings, err := snapshot.Settings()
	must(err)
	options, err := snapshot.Options()
	must(err)
	must(snapshot.Close())
	rounding := strings.Trim(fmt.Sprint(settings.RoundupPower2Divisions), "[]")
	s.add(fmt.Sprintf(`# set string "%s" max_split %d gc %s expandable %d threads %d release_lock %d host_register %d`+
		` reuse %d round %s # large_segment %d non_split_rounding %d background %d fraction %s reserve_segment %d`,
		options, int64(settings.MaxSplitSize), allDigits(settings.GarbageCollectionThreshold),
		bit(settings.ExpandableSegments), settings.PinnedNumRegisterThreads, bit(settings.ReleaseLockOnCudamalloc),
		bit(settings.PinnedUseCudaHostRegister), bit(settings.GraphCaptureRecordStreamReuse), rounding,
		settings.LargeSegmentSize, settings.MaxNonSplitRoundingSize, bit(settings.PinnedUseBackgroundThreads),
		allDigits(settings.PerProcessMemoryFraction), settings.PinnedReserveSegmentSizeMB))
	if s.release == cachalot.Release2_15 {
		s.answer("throw_on_cudamalloc_oom %d pinned_free_catch_all %d", bit(settings.ThrowOnCudamallocOOM),
			bit(settings.PinnedFreeCatchAll))
		s.answer("max_round_threshold %d max_cached_size %d", settings.PinnedMaxRoundThreshold,
			settings.PinnedMaxCachedSize)
	}
}

func bit(flag bool) int {
	if flag {
		return 1
	}
	return 0
}

func yesNo(flag bool) string {
	if flag {
		return "yes"
	}
	return "no"
}

// allDigits is what C prints for "%.17g".
func allDigits(value float64) string {
	return fmt.Sprintf("%.17g", value)
}
