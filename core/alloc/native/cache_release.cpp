// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/cache_release.h"

#include <algorithm>
#include <vector>

#include "alloc/native/block_cache.h"
#include "alloc/native/expandable_memory.h"
#include "alloc/streams/stream_uses.h"

namespace cachalot {

// ---- Garbage collection [core 13]

void CacheRelease::garbage_collect_cached_blocks(ContextId context) {
  CACHALOT_ASSERT(1, has(kAging));
  const auto goal =
      static_cast<uint64_t>(settings().garbage_collection_threshold * static_cast<double>(limit()));
  if (device_.stats.reserved() <= goal) return;
  const uint64_t target = device_.stats.reserved() - goal;
  const BlockPool& large = device_.heap.default_pool(false);
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
  for (bool freed = true; reclaimed < target && freed && count > 0;) {
    freed = false;
    // Fixed for the pass, which does not stop where the target is reached [core 13.5].
    const double average = static_cast<double>(age_sum) / static_cast<double>(count);
    for (auto& [stream, list] : large.lists) {
      for (Block *b = list.free.first(), *next = nullptr; b; b = next) {
        next = list.free.next(b);
        const int32_t age = age_of(b);
        if (static_cast<double>(age) < average || !may_go(b)) continue;
        freed = true;
        reclaimed += b->size;
        age_sum -= age;
        count--;
        plain_.release(b, context);
      }
    }
  }
}

// ---- The releases of the ladder [core 15.1, 15.2]

// [core 15.1] Split blocks are skipped: the reference releases a piece as if it were a segment (U3).
bool CacheRelease::release_available_cached_blocks(const AllocParams& params) {
  // The limit of the option need not be a size of blocks.
  const uint64_t key = round_up(
      std::min(std::max(params.size, settings().max_split_size), kTooLarge), kMinBlockSize);
  StreamFreeList* list = params.list();
  const auto is_releasable = [&](const Block* b) {
    if (b->is(Block::kExpandable)) return false;
    if (b->is_split())
      device_.shared.log.differ("U3", "kept a free piece of a segment that is in use");
    return may_go(b);
  };
  Block* block = list ? list->free.first_at_least(key) : nullptr;
  if (block && is_releasable(block)) {
    plain_.release(block, params.context);
    return true;
  }
  if (!list) return false;
  // No block holds the key, so smaller ones go until their sum does. They are gone even if it does not.
  uint64_t released = 0;
  // From the largest down, so that few blocks go.
  Block* before = block ? list->free.previous(block) : list->free.last();
  while (before && released < key && before->size >= settings().max_split_size) {
    Block* candidate = before;
    before = list->free.previous(candidate);
    if (!is_releasable(candidate)) continue;
    released += candidate->size;
    plain_.release(candidate, params.context);
  }
  return released >= key;
}

// ---- Whole blocks: see Note [Whole blocks]

void CacheRelease::keep_bound_of_whole_blocks(const AllocParams& params) {
  const uint64_t most = params.pool->owner->whole->most_reserved(params.requested);
  release_whole_blocks(params, most - std::min(most, params.segment_size));
}

// A graph that is being captured keeps the addresses of blocks that are free by now.
bool CacheRelease::is_captured(std::optional<Stream> current_stream) const {
  return has(kMarkedCapture) || (current_stream && device_.captures.is_capturing(*current_stream));
}

bool CacheRelease::release_whole_blocks(const AllocParams& params, uint64_t keep) {
  PrivatePool& pool = *params.pool->owner;
  const WholeBlocks& whole = *pool.whole;
  if (whole.reserved() <= keep || pool.is_pinned || is_captured(params.current_stream))
    return false;
  std::vector<Block*> cached = releasable_blocks(pool);
  const bool has_some = !cached.empty();
  const auto is_worth_more = [&](const Block* a, const Block* b) {
    return whole.burden_of(a) < whole.burden_of(b);
  };
  std::make_heap(cached.begin(), cached.end(), is_worth_more);
  while (!cached.empty() && whole.reserved() > keep) {
    std::pop_heap(cached.begin(), cached.end(), is_worth_more);
    plain_.release(cached.back(), params.context);
    cached.pop_back();
  }
  return has_some;
}

// Of all streams.
std::vector<Block*> CacheRelease::releasable_blocks(PrivatePool& pool) const {
  std::vector<Block*> found;
  for (BlockPool* kind : {&pool.small, &pool.large}) {
    for (auto& [stream, list] : kind->lists) {
      for (Block* b = list.free.first(); b; b = list.free.next(b)) {
        if (may_go(b)) found.push_back(b);
      }
    }
  }
  return found;
}

// ---- The cache as a whole [core 15.2]

// Waits for events first: blocks that other streams are done with go back as well [core 12.6].
void CacheRelease::release_cached_blocks(PoolId pool, std::optional<Stream> current_stream,
                                         ContextId context) {
  if (!pool.is_default()) {
    PrivatePool* found = device_.pools.find(pool);
    // A pool that is in use keeps its memory, since graphs rely on its addresses [core 15.3].
    if (!found || found->keeps_memory()) return;
    wait_for_work(found, current_stream, context);
    return release_private_pool(pool, current_stream, context);
  }
  // Within a capture only private pools give memory back: waiting for events would break the capture.
  if (!device_.captures.is_capture_context(current_stream)) {
    wait_for_work(nullptr, current_stream, context);
    release_blocks(device_.heap.default_pool(false), context);
    release_blocks(device_.heap.default_pool(true), context);
    if (device_.policy) device_.policy->cache_emptied();
  }
  // Released pools give their memory back within captures too.
  for (const PoolId id : device_.pools.releasable())
    release_private_pool(id, current_stream, context);
}

void CacheRelease::wait_for_work(PrivatePool* pool, std::optional<Stream> current_stream,
                                 ContextId context) {
  device_.stats.count_sync_of_all_streams();
  device_.pending.synchronize_and_free_events(context, current_stream, pool);
  if (device_.policy) device_.policy->finish_moves(/*may_wait=*/true);
}

// Small before large, unlike the default pools (P16).
void CacheRelease::release_private_pool(PoolId id, std::optional<Stream> current_stream,
                                        ContextId context) {
  PrivatePool& pool = *device_.pools.find(id);
  if (pool.use_count != 0 && is_captured(current_stream)) return;
  release_blocks(pool.small, context);
  release_blocks(pool.large, context);
  device_.pools.destroy_if_empty(id);
}

void CacheRelease::release_blocks(BlockPool& pool, ContextId context) {
  // Unmapping makes new free blocks, so it comes after the walk through the lists [core 15.4].
  std::vector<Block*> to_unmap;
  for (auto& [stream, list] : pool.lists) {
    for (Block *b = list.free.first(), *next = nullptr; b; b = next) {
      next = list.free.next(b);
      if (b->is(Block::kExpandable)) {
        to_unmap.push_back(b);
      } else if (may_go(b)) {
        plain_.release(b, context);
      }
    }
  }
  ExpandableMemory memory(device_);
  for (Block* block : to_unmap) memory.unmap_block(block, context);
  // A policy may have moved their pages to other ranges [policy P12]. The reference keeps those that never had one.
  if (device_.policy)
    memory.remove_empty_ranges([&pool](const Segment& range) { return range.pool == &pool; });
  BlockCache(device_).drop_empty_lists(pool);
}

// ---- The end

// Ignores errors: no caller is left to hear of them, and the driver may be shutting down itself.
void CacheRelease::give_everything_back() {
  // A deferred free has no event, so nothing less than the device tells that its block is unused. Nor is
  // there one for a block that was lent.
  if (device_.pending.has_deferred() || device_.policy) driver().device_synchronize(device_.index);
  device_.pending.destroy_events();
  // Its heaps go while their memory is still there.
  device_.watch.reset();
  for (auto& [address, segment] : device_.heap.segments()) {
    for (Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kRecorded)) delete b->detail().uses;
      if (b->is(Block::kUnmapped) && b->is(Block::kWaiting))
        segment->pages->end_mapping(b->address, b->size);
    }
    if (!segment->is_expandable()) {
      plain_.give_range_to_driver(*segment->pool, address, segment->size, segment->source_stream);
      continue;
    }
    if (!device_.policy) driver().stream_synchronize(device_.index, segment->stream);
    segment->pages->give_back();
    driver().unreserve(device_.index, address, segment->pages->reserved_bytes());
  }
}

}  // namespace cachalot
