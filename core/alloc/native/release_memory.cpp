// SPDX-License-Identifier: MIT OR Apache-2.0
// Giving cached memory back to the driver: garbage collection, the releases of the ladder, the
// cache emptied [core 13, 15].
#include <cmath>

#include "alloc/native/block_steps.h"
#include "alloc/native/hold.h"
#include "base/text.h"

namespace cachalot {

// ---- Segments come and go

// Throws where a new range lies over a segment. The caller keeps such a range: giving it back would
// take the segment's memory.
void DeviceAllocator::require_apart(const BlockPool& pool, Address address, uint64_t size) const {
  const Segment* const other = heap_.segment_in(address, size);
  if (!other) return;
  throw_refusing(pool, address, size,
                 ", where " + range_text(other->address, other->size) + " are in use");
}

void DeviceAllocator::throw_refusing(const BlockPool& pool, Address address, uint64_t size,
                                     const std::string& why) {
  throw_invalid_state((has_source(pool) ? "the pool's source gave " : "the driver gave ") +
                      range_text(address, size) + why);
}

DriverCode DeviceAllocator::give_to_driver(const BlockPool& pool, Address address, uint64_t size,
                                           Stream source_stream) {
  if (!has_source(pool)) return driver_.free(device_, address);
  pool.owner->source->free(address, size, device_, driver_.user_handle(source_stream));
  return kSuccess;
}

// [core 15.5] pre: a free plain block that covers its segment. The counter and the entry precede the
// call.
void DeviceAllocator::release_block(Block* block, ContextId context) {
  announce_release(block, context);
  const DriverCode code = give_segment_to_driver(block);
  if (code != kSuccess) throw runtime_error(driver_, code);
  SegmentHeap::remove_free(block);
  forget_segment(block);
}

void DeviceAllocator::announce_release(const Block* block, ContextId context) {
  const Segment& segment = *block->segment();
  stats_.count_device_free();
  trace(Action::kSegmentFree, block->address, block->size, segment.stream, *segment.pool,
        context ? context : block->detail().segment_context);
  if (MemoryWatch* watch = watch_of(*segment.pool)) watch->goes(block->address, block->size);
}

// The address table comes first: as soon as the driver has the memory, another device may get the same
// addresses, and enter its blocks there.
DriverCode DeviceAllocator::give_segment_to_driver(const Block* block) {
  const Segment& segment = *block->segment();
  const BlockPool& pool = *segment.pool;
  if (pool.is_small) shared_.addresses.release(block->address, block->size);
  const DriverCode code = give_to_driver(pool, block->address, block->size, segment.source_stream);
  // Cannot fail: the table got what this needs when the segment came.
  if (code != kSuccess && pool.is_small)
    shared_.addresses.prepare(block->address, block->size, true);
  return code;
}

// How much of a free block the driver can have: its whole segment, or the whole pages in it.
uint64_t DeviceAllocator::releasable_bytes(const Block* free_block) {
  if (!free_block->is(Block::kExpandable)) return free_block->is_split() ? 0 : free_block->size;
  const auto [begin, end] =
      free_block->segment()->pages->whole_pages(free_block->address, free_block->size);
  return end - begin;
}

// pre: a block that covers its segment, in no set; the driver has the memory back.
void DeviceAllocator::forget_segment(Block* only_block) {
  BlockPool& pool = *only_block->segment()->pool;
  const uint64_t size = only_block->size;
  if (pool.owner) pool.owner->driver_allocations--;
  stats_.segment_released(pool_id_of(pool), pool.is_small, size, size >= settings_.max_split_size);
  heap_.remove_segment(only_block);
}

// ---- Garbage collection [core 13]

void DeviceAllocator::garbage_collect_cached_blocks(ContextId context) {
  const auto goal =
      static_cast<uint64_t>(settings_.garbage_collection_threshold * static_cast<double>(limit_));
  if (stats_.reserved() <= goal) return;
  const uint64_t target = stats_.reserved() - goal;
  const BlockPool& large = heap_.default_pool(false);
  // The counts wrap, so only their difference tells an age [core 13.3].
  const auto age_of = [&](const Block* b) {
    return static_cast<int32_t>(large.search_count - b->detail().mark);
  };
  int64_t age_sum = 0;
  int64_t count = 0;
  // Expandable blocks count in the average, although no pass releases them [core 13.4].
  for (auto& [stream, list] : large.lists) {
    for (const Block* b = list.free.first(); b; b = list.free.next(b)) {
      if (b->is_split()) continue;
      age_sum += age_of(b);
      count++;
    }
  }
  uint64_t reclaimed = 0;
  bool freed = true;
  while (reclaimed < target && freed && count > 0) {
    freed = false;
    // Fixed for the pass, which does not stop where the target is reached [core 13.5].
    const double average = static_cast<double>(age_sum) / static_cast<double>(count);
    for (auto& [stream, list] : large.lists) {
      for (Block *b = list.free.first(), *next = nullptr; b; b = next) {
        next = list.free.next(b);
        const int32_t age = age_of(b);
        if (b->is_split() || b->is(Block::kExpandable) || static_cast<double>(age) < average)
          continue;
        freed = true;
        reclaimed += b->size;
        age_sum -= age;
        count--;
        release_block(b, context);
      }
    }
  }
}

// ---- The releases of the ladder [core 15.1, 15.2]

// [core 15.1] Split blocks are skipped: the reference releases a piece as if it were a segment (U3).
bool DeviceAllocator::release_available_cached_blocks(const AllocParams& params) {
  const uint64_t key = std::max(params.size, settings_.max_split_size);
  StreamFreeList* list = params.list();
  const auto is_releasable = [&](const Block* b) {
    if (b->is(Block::kExpandable)) return false;
    if (b->is_split()) shared_.log.differ("U3", "kept a free piece of a segment that is in use");
    return !b->is_split();
  };
  Block* block = list ? list->free.first_at_least(key) : nullptr;
  if (block && is_releasable(block)) {
    release_block(block, params.context);
    return true;
  }
  if (!list) return false;
  // No block holds the key, so smaller ones go until their sum does. They are gone even if it does not.
  uint64_t released = 0;
  Block* before = block ? list->free.previous(block) : list->free.last();
  while (before && released < key && before->size >= settings_.max_split_size) {
    Block* candidate = before;
    before = list->free.previous(candidate);
    if (!is_releasable(candidate)) continue;
    released += candidate->size;
    release_block(candidate, params.context);
  }
  return released >= key;
}

void DeviceAllocator::release_cached_blocks(PoolId pool, std::optional<Stream> current_stream,
                                            ContextId context) {
  if (!pool.is_default()) {
    PrivatePool* found = pools_.find(pool);
    if (!found || found->use_count != 0) return;
    stats_.count_sync_of_all_streams();
    pending_.synchronize_and_free_events(context, current_stream, found);
    return release_private_pool(pool, context);
  }
  // Within a capture only private pools give memory back: waiting for events would break the capture.
  if (!captures_.is_capture_context(current_stream)) {
    stats_.count_sync_of_all_streams();
    pending_.synchronize_and_free_events(context, current_stream, nullptr);
    release_blocks(heap_.default_pool(false), context);
    release_blocks(heap_.default_pool(true), context);
  }
  for (const PoolId id : pools_.releasable()) release_private_pool(id, context);
}

// Small before large, unlike the default pools (P16).
void DeviceAllocator::release_private_pool(PoolId id, ContextId context) {
  PrivatePool& pool = *pools_.find(id);
  release_blocks(pool.small, context);
  release_blocks(pool.large, context);
  pools_.destroy_if_empty(id);
}

void DeviceAllocator::release_blocks(BlockPool& pool, ContextId context) {
  // Unmapping makes new free blocks, so it comes after the walk through the lists [core 15.4].
  std::vector<Block*> to_unmap;
  for (auto& [stream, list] : pool.lists) {
    for (Block *b = list.free.first(), *next = nullptr; b; b = next) {
      next = list.free.next(b);
      if (b->is(Block::kExpandable)) {
        to_unmap.push_back(b);
      } else if (!b->is_split()) {
        release_block(b, context);
      }
    }
  }
  for (Block* block : to_unmap) unmap_block(block, context);
  drop_empty_lists(pool);
}

// ---- Calls

void DeviceAllocator::empty_cache(PoolId pool, std::optional<Stream> current_stream) {
  const ContextId context = recorder_.capture_context(ContextLevel::kAll);
  const Hold hold(*this);
  if (!pool.is_default()) pools_.remark_if_outlived(pool);
  release_cached_blocks(pool, current_stream, context);
  shared_.addresses.shrink();
}

uint64_t DeviceAllocator::largest_block(uint64_t at_least, Stream) {
  const Hold hold(*this);
  uint64_t largest = at_least;
  if (largest == 0) {
    uint64_t total = 0;
    const DriverCode code = driver_.memory_info(device_, &largest, &total);
    if (code != kSuccess) throw runtime_error(driver_, code);
  }
  for_each_list([&](const StreamFreeList& list) {
    if (const Block* block = list.free.last()) largest = std::max(largest, block->size);
  });
  return largest;
}

// ---- The end

DeviceAllocator::~DeviceAllocator() { give_everything_back(); }

// Ignores errors: no caller is left to hear of them, and the driver may be shutting down itself.
void DeviceAllocator::give_everything_back() {
  // A deferred free has no event, so nothing less than the device tells that its block is unused.
  if (pending_.has_deferred()) driver_.device_synchronize(device_);
  pending_.destroy_events();
  watch_.reset();
  for (auto& [address, segment] : heap_.segments()) {
    for (Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kRecorded)) delete b->detail().uses;
    }
    if (!segment->is_expandable()) {
      give_to_driver(*segment->pool, address, segment->size, segment->source_stream);
      continue;
    }
    driver_.stream_synchronize(device_, segment->stream);
    segment->pages->give_back();
    driver_.unreserve(device_, address, segment->pages->reserved_bytes());
  }
}

}  // namespace cachalot
