// SPDX-License-Identifier: MIT OR Apache-2.0
// Snapshots of one device, and its history [core 22.5].
#include <algorithm>
#include <deque>

#include "alloc/native/hold.h"
#include "base/pause.h"

namespace cachalot {
namespace {

// The snapshot copies so many blocks at a time under a shard's lock, in less than a microsecond, and
// then leaves the lock to the shard's streams for longer than that.
constexpr int kSlice = 4;
constexpr int kPauses = 32;

}  // namespace

void DeviceAllocator::skip_actions(bool recording, uint32_t skipped_actions) {
  const Hold hold(*this);
  recorder_.skip_actions(recording, skipped_actions);
}

void DeviceAllocator::record_history(const HistoryOptions& options, uint32_t skipped_actions) {
  const Hold hold(*this);
  recorder_.set_options(options, skipped_actions);
}

std::vector<TraceEntry> DeviceAllocator::history() {
  const std::lock_guard guard(lock_);
  return recorder_.entries();
}

void DeviceAllocator::annotate(const Block* block, Address address, const std::string& text) {
  const ContextId context = recorder_.capture_context(ContextLevel::kAlloc);
  Hold hold(*this);
  if (block->address != address || !block->is(Block::kUsed)) {
    hold.let_go();
    throw Error(Status::kInvalidArgument, annotation_error(address));
  }
  const StreamFreeList& list = list_of(block);
  recorder_.record_annotation(address, block->requested, list.stream, pool_id_of(*list.pool),
                              context, text);
}

// ---- Snapshots (see Note [Copying blocks])

void DeviceAllocator::preserve(Shard& shard, Block* block) {
  if (block->detail().preserved_for == shard.preserves_for) return;
  block->detail().preserved_for = shard.preserves_for;
  shard.changed_for = shard.preserves_for;
  if (SegmentCopy* copy = block->segment()->copy) copy->preserve(block);
}

void DeviceAllocator::preserve_before_free(Shard& shard, Block* block, Neighbours free) {
  SegmentCopy* const copy = block->segment()->copy;
  preserve(shard, block);
  if (free.before) preserve(shard, block->prev);
  if (free.after) preserve(shard, block->next);
  if (copy && free.before) copy->absorbed(block->prev, block);
  if (copy && free.after) copy->absorbed(block->next, block);
}

// pre: the device's lock, and copies of segments that do not lead to them.
void DeviceAllocator::copy_segments(std::deque<SegmentCopy>& copies) {
  if (has(kWholeDevice)) {
    flush_only_shard();
    for (SegmentCopy& copy : copies) {
      while (copy.copy(kSlice, 0)) continue;
    }
    return;
  }
  for (SegmentCopy& copy : copies) heap_.segments().at(copy.segment->address)->copy = &copy;
  copy_number_++;
  flags_.add(kCopying);
  for (SegmentCopy& copy : copies) {
    Shard& shard = *copy.segment->list->shard;
    for (bool goes_on = true; goes_on; pause_briefly(kPauses)) {
      const auto guard = lock_at(shard);
      const bool may_be_changed = shard.changed_for == copy_number_;
      goes_on = copy.copy(kSlice, may_be_changed ? copy_number_ : 0);
    }
  }
  flags_.drop(kCopying);
  for (const auto& shard : shards_) {
    const std::lock_guard guard(shard->lock);
    shard->preserves_for = 0;
  }
  for (SegmentCopy& copy : copies) heap_.segments().at(copy.segment->address)->copy = nullptr;
}

// One row for each range that is mapped without a gap. The reference finds a private pool's segments
// by their first blocks, so an expandable one shows only as far as it is mapped from its beginning
// on [exp 8.8].
void DeviceAllocator::add_to_snapshot(Snapshot* snapshot, const SegmentCopy& copy,
                                      bool only_from_head) const {
  if (copy.is_lost) throw std::bad_alloc();
  std::vector<BlockCopy> rows(copy.rows.begin(), copy.rows.end());
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
      row.device = device_;
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
  }
}

void DeviceAllocator::add_to_snapshot(Snapshot* snapshot, PoolId pool) {
  const std::lock_guard guard(lock_);
  const bool is_of_pool = !pool.is_default();
  if (is_of_pool) pools_.remark_if_outlived(pool);
  std::deque<SegmentCopy> copies;
  for (const auto& [address, segment] : heap_.segments()) {
    if (!is_of_pool || pool_id_of(*segment->pool) == pool) copies.emplace_back(segment.get());
  }
  copy_segments(copies);
  const size_t first_row = snapshot->segments.size();
  for (const SegmentCopy& copy : copies) add_to_snapshot(snapshot, copy, is_of_pool);
  uint64_t active = 0;
  for (size_t i = first_row; i < snapshot->segments.size(); i++)
    active += snapshot->segments[i].active_size;
  recorder_.record(Action::kSnapshot, 0, active, 0, pool, kNoContext);
}

}  // namespace cachalot
