// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/trim.h"

#include <algorithm>
#include <tuple>

#include "alloc/native/block_cache.h"
#include "alloc/native/cache_release.h"
#include "alloc/native/expandable_memory.h"
#include "alloc/shards/device_lock.h"

namespace cachalot {

// Adds to `released` after each step, so that the caller knows what has gone back when a later one
// throws.
void Trim::run(uint64_t* released) {
  const std::vector<BlockPool*> trimmed = pools();
  for (const Candidate& candidate : collect(trimmed)) {
    const uint64_t before = device_.stats.reserved();
    if (before <= goal_.keep_bytes) break;
    if (!has_idled_enough(candidate.idle_since) && !driver().is_nearly_full(device_.index)) break;
    release(candidate);
    *released += before - device_.stats.reserved();
  }
  drop_what_is_empty(trimmed);
}

// Graphs rely on the addresses of their pools, so a pool in use keeps its memory.
std::vector<BlockPool*> Trim::pools() {
  std::vector<BlockPool*> found{&device_.heap.default_pool(false),
                                &device_.heap.default_pool(true)};
  for (const PoolId id : device_.pools.releasable()) {
    PrivatePool& pool = *device_.pools.find(id);
    found.push_back(&pool.small);
    found.push_back(&pool.large);
  }
  return found;
}

// Longest idle first, and behind those that have idled enough all others where the device is nearly full. Skips blocks
// below the smallest segment or page: the driver could have nothing of them.
std::vector<Trim::Candidate> Trim::collect(const std::vector<BlockPool*>& pools) {
  const bool takes_all = driver().is_nearly_full(device_.index);
  std::vector<Candidate> found;
  for (BlockPool* pool : pools) {
    for (auto& [stream, list] : pool->lists) {
      const auto guard = device_.shards.lock_at(*list.shard);
      Block* block =
          list.free.first_at_least(std::min(kSmallSegment, device_.settings.page_size(true)));
      for (; block; block = list.free.next(block)) {
        if (device_.heap.releasable_bytes(block) == 0) continue;
        mark(block);
        if (takes_all || has_idled_enough(block->detail().idle_since))
          found.push_back({list.shard, block, block->address, block->segment()->number,
                           block->detail().idle_since});
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [&](const Candidate& a, const Candidate& b) { return is_before(a, b); });
  return found;
}

// The first trim that sees a free block begins its idle time.
void Trim::mark(Block* block) const {
  if (block->is(Block::kIdle)) return;
  block->set(Block::kIdle);
  block->detail().idle_since = goal_.now_ns;
}

// A clock that went back counts as no idle time.
bool Trim::has_idled_enough(uint64_t since) const {
  return goal_.now_ns - std::min(since, goal_.now_ns) >= goal_.min_idle_ns;
}

// Ties as among free blocks of one size (R2).
bool Trim::is_before(const Candidate& a, const Candidate& b) const {
  const auto order = [&](const Candidate& c) {
    const int64_t number = rules().ties_by_segment_number ? c.segment_number : 0;
    return std::tuple(c.idle_since, number, c.address);
  };
  return order(a) < order(b);
}

// No lock was held since the collection. An object that stands for another block by now has another
// address or time.
bool Trim::is_still_idle(const Candidate& candidate) const {
  const Block* block = candidate.block;
  return block->address == candidate.address && block->is_free() && block->is(Block::kIdle) &&
         block->detail().idle_since == candidate.idle_since &&
         device_.heap.releasable_bytes(block) != 0;
}

// The block may be gone by now, but not its shard: shards live as long as their device.
void Trim::release(const Candidate& candidate) {
  auto guard = device_.shards.lock_at(*candidate.shard);
  if (!is_still_idle(candidate)) return;
  if (candidate.block->is(Block::kExpandable)) {
    release_pages(candidate.block);
  } else {
    release_segment(candidate.block, guard);
  }
}

// Only calls on this shard wait for the driver meanwhile.
void Trim::release_pages(Block* block) {
  const LongHold long_hold(device_.shards, list_of(block).shard);
  ExpandableMemory(device_).unmap_block(block, context_);
}

// No search finds a waiting block, and no neighbour merges with it.
void Trim::take_out(Block* block) {
  SegmentHeap::remove_free(block);
  block->set(Block::kWaiting);
}

// Its flag, its time and its age stay as they were.
void Trim::put_back(Block* block) {
  block->clear(Block::kWaiting);
  list_of(block).free.insert(block);
}

// The entry and the counter come before the call, as in every release [core 15.5].
void Trim::release_segment(Block* block, std::unique_lock<Lock>& guard) {
  plain_.announce_release(block, context_);
  take_out(block);
  Shard& shard = *list_of(block).shard;
  guard.unlock();  // the driver may wait for the whole device; hits go on meanwhile
  try {
    const DriverCode code = plain_.give_to_driver(block);
    if (code != kSuccess) throw runtime_error(driver(), code);
  } catch (...) {
    guard = device_.shards.lock_at(shard);
    put_back(block);
    throw;
  }
  guard = device_.shards.lock_at(shard);
  plain_.forget(block);
}

// A policy may have moved their pages to other ranges [policy P12].
void Trim::remove_empty_ranges(const std::vector<BlockPool*>& pools) {
  ExpandableMemory memory(device_);
  for (Block* block : memory.empty_ranges()) {
    const auto guard = device_.shards.lock_at(*list_of(block).shard);
    if (std::find(pools.begin(), pools.end(), block->segment()->pool) != pools.end())
      memory.remove_range(block);
  }
}

// The end of a trim, the same as when the cache is emptied.
void Trim::drop_what_is_empty(const std::vector<BlockPool*>& pools) {
  if (device_.policy) remove_empty_ranges(pools);
  for (BlockPool* pool : pools) BlockCache(device_).drop_empty_lists(*pool);
  for (const PoolId id : device_.pools.releasable()) {
    if (device_.pools.find(id)->is_empty()) device_.pools.destroy_if_empty(id);
  }
  device_.shared.addresses.shrink();
}

}  // namespace cachalot
