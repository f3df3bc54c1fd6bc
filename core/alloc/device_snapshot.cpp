// SPDX-License-Identifier: MIT OR Apache-2.0
// Snapshots of one device, and its history (22, snapshot-format.md 3).
#include <chrono>

#include "alloc/hot_path.h"

namespace cachalot {
namespace {

int64_t microseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

BlockState state_of(const Block& block) {
  if (block.is(Block::kUsed)) return BlockState::kAllocated;
  return block.is(Block::kWaiting) ? BlockState::kPendingFree : BlockState::kInactive;
}

}  // namespace

// Called before the lock is taken: capturing a context may be slow and may run the caller's code.
ContextId DeviceAllocator::capture_context(ContextLevel level) const {
  if (context_level_.load(std::memory_order_relaxed) < level) [[likely]]
    return kNoContext;
  return shared_.contexts.capture ? shared_.contexts.capture() : kNoContext;
}

void DeviceAllocator::record(Action action, Address address, uint64_t size, Stream stream,
                             PoolId pool, ContextId context) {
  const bool keeps_context = context_level_.load(std::memory_order_relaxed) >= ContextLevel::kAlloc;
  add_entry({action, device_, address, size, stream, pool, keeps_context ? context : kNoContext,
             microseconds_since_1970(), current_metadata(), internal_tag_});
}

// An entry that there is no memory for is lost, and so is what an observer throws: the call that it
// is about goes on, since it has changed something already.
void DeviceAllocator::add_entry(TraceEntry entry) try {
  for (const auto& [id, observer] : observers_->trace) observer(entry);
  const bool is_skipped = (skipped_actions_ >> static_cast<int>(entry.action) & 1) != 0;
  if (recording_ && !is_skipped) ring_.add(std::move(entry));
} catch (...) {
}

// What is left of a request to record that names an unknown action (22.3).
void DeviceAllocator::skip_actions(bool recording, uint32_t skipped_actions) {
  Guard guard(lock_);
  recording_ = recording;
  skipped_actions_ = skipped_actions;
  update_duties();
}

// Another limit keeps what is there, and with it the order of the reference (22.1, U11).
void DeviceAllocator::record_history(const HistoryOptions& options, uint32_t skipped_actions) {
  Guard guard(lock_);
  recording_ = options.enabled;
  ring_.set_limit(options.max_entries, rules_.mend_history_order);
  skipped_actions_ = skipped_actions;
  context_level_.store(options.enabled ? options.context : ContextLevel::kNever,
                       std::memory_order_relaxed);
  if (!options.enabled || options.clear) ring_.clear();
  update_duties();
}

std::vector<TraceEntry> DeviceAllocator::history() {
  Guard guard(lock_);
  return ring_.entries();
}

void DeviceAllocator::annotate(const Block* block, Address address, const std::string& text) {
  const ContextId context = capture_context(ContextLevel::kAlloc);
  Guard guard(lock_);
  if (block->address != address || !block->is(Block::kUsed)) {
    guard.unlock();
    throw Error(Status::kInvalidArgument, annotation_error(address));
  }
  if (!has(kTracing)) return;
  const Shelf& shelf = shelf_of(block);
  const bool keeps_context = context_level_.load(std::memory_order_relaxed) >= ContextLevel::kAlloc;
  add_entry({Action::kAnnotate, device_, address, block->requested, shelf.stream,
             pool_id_of(*shelf.pool), keeps_context ? context : kNoContext,
             microseconds_since_1970(), std::make_shared<const std::string>(text), ""});
}

// One row for what is mapped without a gap from `first` on.
const Block* DeviceAllocator::add_range_to_snapshot(Snapshot* snapshot, const Segment& segment,
                                                    const Block* first) const {
  SegmentRow row{};
  row.device = device_;
  row.address = first->address;
  row.stream = segment.stream;
  row.pool = pool_id_of(*segment.pool);
  row.is_large = !segment.pool->is_small;
  row.is_expandable = segment.is_expandable();
  row.number = segment.number;
  row.context = first->detail().segment_context;
  row.first_block = snapshot->blocks.size();
  const Block* b = first;
  for (; b != &segment.ends && !b->is(Block::kUnmapped); b = b->next) {
    row.total_size += b->size;
    if (b->is(Block::kUsed)) row.allocated_size += b->size;
    if (!b->is_free()) row.active_size += b->size;
    if (!b->is_free()) row.requested_size += b->requested;
    snapshot->blocks.push_back(
        {b->address, b->size, b->requested, state_of(*b), b->detail().context});
  }
  row.block_count = snapshot->blocks.size() - row.first_block;
  snapshot->segments.push_back(row);
  return b;
}

// The reference finds a private pool's segments by their first blocks, so an expandable one shows
// only as far as it is mapped from its beginning on (exp. 8.8).
void DeviceAllocator::add_to_snapshot(Snapshot* snapshot, PoolId pool) {
  Guard guard(lock_);
  settle();
  if (!pool.is_default()) remark_if_outlived(pool);
  const size_t first_row = snapshot->segments.size();
  for (const auto& [address, segment] : segments_) {
    const bool only_from_head = !pool.is_default();
    if (only_from_head && pool_id_of(*segment->pool) != pool) continue;
    const Block* b = segment->first();
    while (b != &segment->ends) {
      if (!b->is(Block::kUnmapped)) {
        b = add_range_to_snapshot(snapshot, *segment, b);
      } else {
        b = b->next;
      }
      if (only_from_head) break;
    }
  }
  uint64_t active = 0;
  for (size_t i = first_row; i < snapshot->segments.size(); i++)
    active += snapshot->segments[i].active_size;
  if (has(kTracing)) record(Action::kSnapshot, 0, active, 0, pool, kNoContext);
}

}  // namespace cachalot
