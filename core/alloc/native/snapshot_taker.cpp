// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/snapshot_taker.h"

#include <algorithm>
#include <vector>

#include "base/pause.h"

namespace cachalot {
namespace {

// The snapshot copies so many blocks at a time under a shard's lock, in less than a microsecond, and
// then leaves the lock to the shard's streams for longer than that.
constexpr int kSlice = 4;
constexpr int kPauses = 32;

}  // namespace

// See Note [Copying blocks]. A device that is used as a whole cannot change meanwhile, so there the
// copies are plain walks.
void SnapshotTaker::copy_segments(std::deque<SegmentCopy>& copies) {
  if (has(kWholeDevice)) {
    device_.shards.flush_only_shard();
    for (SegmentCopy& copy : copies) {
      while (copy.copy(kSlice, 0)) continue;
    }
    return;
  }
  for (SegmentCopy& copy : copies) device_.heap.segments().at(copy.segment->address)->copy = &copy;
  // The segments point to their copies before the flag is set: a call that sees the flag finds the
  // copy.
  const uint32_t number = device_.shards.begin_copying();
  for (SegmentCopy& copy : copies) {
    Shard& shard = *copy.segment->list->shard;
    for (bool goes_on = true; goes_on; pause_briefly(kPauses)) {
      const auto guard = device_.shards.lock_at(shard);
      // A shard at which nothing was changed has preserved nothing, so its blocks need no look at
      // their details.
      const bool may_be_changed = shard.changed_for == number;
      goes_on = copy.copy(kSlice, may_be_changed ? number : 0);
    }
  }
  device_.shards.end_copying();
  for (SegmentCopy& copy : copies)
    device_.heap.segments().at(copy.segment->address)->copy = nullptr;
}

// One row for each range that is mapped without a gap. The reference finds a private pool's segments
// by their first blocks, so an expandable one shows only as far as it is mapped from its beginning
// on [exp 8.8].
void SnapshotTaker::add_rows(Snapshot* snapshot, const SegmentCopy& copy,
                             bool only_from_head) const {
  if (copy.is_lost) throw std::bad_alloc();
  std::vector<BlockCopy> rows(copy.rows.begin(), copy.rows.end());
  // Rows that other calls preserved came out of turn.
  std::sort(rows.begin(), rows.end(), [](const BlockCopy& a, const BlockCopy& b) {
    return a.block.address < b.block.address;
  });
  const Segment& segment = *copy.segment;
  bool is_in_range = false;
  for (const BlockCopy& row_copy : rows) {
    if (row_copy.is_unmapped && only_from_head) return;
    if (row_copy.is_unmapped) is_in_range = false;
    if (row_copy.is_unmapped) continue;
    const BlockRow& block = row_copy.block;
    if (!is_in_range) {
      is_in_range = true;
      SegmentRow row{};
      row.device = device_.index;
      row.address = block.address;
      row.stream = segment.stream;
      row.pool = pool_id_of(*segment.pool);
      row.is_large = !segment.pool->is_small;
      row.is_expandable = segment.is_expandable();
      row.number = segment.number;
      row.context = row_copy.segment_context;
      row.first_block = snapshot->blocks.size();
      snapshot->segments.push_back(row);
    }
    SegmentRow& row = snapshot->segments.back();
    const bool is_active = block.state != BlockState::kInactive;
    row.total_size += block.size;
    if (block.state == BlockState::kAllocated) row.allocated_size += block.size;
    if (is_active) row.active_size += block.size;
    if (is_active) row.requested_size += block.requested;
    row.block_count++;
    snapshot->blocks.push_back(block);
    // A stamp of the serving policy is no size.
    if (has(kServing) && !is_active) snapshot->blocks.back().requested = 0;
  }
}

void SnapshotTaker::add_rows_to(Snapshot* snapshot, PoolId pool) {
  const bool is_of_pool = !pool.is_default();
  if (is_of_pool) device_.pools.remark_if_outlived(pool);
  std::deque<SegmentCopy> copies;
  for (const auto& [address, segment] : device_.heap.segments()) {
    if (!is_of_pool || pool_id_of(*segment->pool) == pool) copies.emplace_back(segment.get());
  }
  copy_segments(copies);
  for (const SegmentCopy& copy : copies) add_rows(snapshot, copy, is_of_pool);
}

// The entry of the history comes last and names the active bytes of the snapshot's own rows [core
// 22.1].
void SnapshotTaker::add_to(Snapshot* snapshot, PoolId pool) {
  const size_t first_row = snapshot->segments.size();
  add_rows_to(snapshot, pool);
  uint64_t active = 0;
  for (size_t i = first_row; i < snapshot->segments.size(); i++)
    active += snapshot->segments[i].active_size;
  device_.recorder.record(Action::kSnapshot, 0, active, 0, pool, kNoContext);
}

}  // namespace cachalot
