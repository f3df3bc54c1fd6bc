// SPDX-License-Identifier: MIT OR Apache-2.0
// Snapshots of one device, and its history (22, snapshot-format.md 3).
#include <algorithm>
#include <deque>

#include "alloc/hold.h"
#include "base/pause.h"

namespace cachalot {
namespace {

// So many blocks are copied under a shard's lock at a time, in less than a microsecond, and then its
// stream has the lock for longer than that.
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
  const Shelf& shelf = shelf_of(block);
  recorder_.record_annotation(address, block->requested, shelf.stream, pool_id_of(*shelf.pool),
                              context, text);
}

// ---- Snapshots (see Note [Block pictures])

void DeviceAllocator::keep(Shard& shard, Block* block) {
  if (block->detail().pictured == shard.keeps_for) return;
  block->detail().pictured = shard.keeps_for;
  shard.changed_for = shard.keeps_for;
  if (SegmentPicture* picture = block->segment()->picture) picture->keep(block);
}

void DeviceAllocator::keep_before_free(Shard& shard, Block* block, Neighbours free) {
  SegmentPicture* const picture = block->segment()->picture;
  keep(shard, block);
  if (free.before) keep(shard, block->prev);
  if (free.after) keep(shard, block->next);
  if (picture && free.before) picture->absorbed(block->prev, block);
  if (picture && free.after) picture->absorbed(block->next, block);
}

// pre: the device's lock, and pictures of segments that do not lead to them.
void DeviceAllocator::take_pictures(std::deque<SegmentPicture>& pictures) {
  if (has(kWholeDevice)) {
    for (SegmentPicture& picture : pictures) {
      while (picture.copy(kSlice, 0)) continue;
    }
    return;
  }
  for (SegmentPicture& picture : pictures)
    heap_.segments().at(picture.segment->address)->picture = &picture;
  picture_number_++;
  flags_.add(kPicturing);
  for (SegmentPicture& picture : pictures) {
    Shard& shard = *picture.segment->shelf->shard;
    for (bool goes_on = true; goes_on; pause_briefly(kPauses)) {
      const auto guard = lock_at(shard);
      const bool may_be_changed = shard.changed_for == picture_number_;
      goes_on = picture.copy(kSlice, may_be_changed ? picture_number_ : 0);
    }
  }
  flags_.drop(kPicturing);
  for (const auto& shard : shards_) {
    const std::lock_guard guard(shard->lock);
    shard->keeps_for = 0;
  }
  for (SegmentPicture& picture : pictures)
    heap_.segments().at(picture.segment->address)->picture = nullptr;
}

// One row for each range that is mapped without a gap. The reference finds a private pool's segments
// by their first blocks, so an expandable one shows only as far as it is mapped from its beginning
// on (exp. 8.8).
void DeviceAllocator::add_to_snapshot(Snapshot* snapshot, const SegmentPicture& picture,
                                      bool only_from_head) const {
  if (picture.is_lost) throw std::bad_alloc();
  std::vector<PictureRow> rows(picture.rows.begin(), picture.rows.end());
  std::sort(rows.begin(), rows.end(), [](const PictureRow& a, const PictureRow& b) {
    return a.block.address < b.block.address;
  });
  const Segment& segment = *picture.segment;
  bool is_in_range = false;
  for (const PictureRow& picture_row : rows) {
    if (picture_row.is_unmapped && only_from_head) return;
    if (picture_row.is_unmapped) is_in_range = false;
    if (picture_row.is_unmapped) continue;
    const BlockRow& block = picture_row.block;
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
      row.context = picture_row.segment_context;
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
  std::deque<SegmentPicture> pictures;
  for (const auto& [address, segment] : heap_.segments()) {
    if (!is_of_pool || pool_id_of(*segment->pool) == pool) pictures.emplace_back(segment.get());
  }
  take_pictures(pictures);
  const size_t first_row = snapshot->segments.size();
  for (const SegmentPicture& picture : pictures) add_to_snapshot(snapshot, picture, is_of_pool);
  uint64_t active = 0;
  for (size_t i = first_row; i < snapshot->segments.size(); i++)
    active += snapshot->segments[i].active_size;
  recorder_.record(Action::kSnapshot, 0, active, 0, pool, kNoContext);
}

}  // namespace cachalot
