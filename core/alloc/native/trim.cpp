// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/backend/trim.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <vector>

#include "alloc/native/hold.h"

namespace cachalot {

// One trim of a device. It collects candidates, then checks one after the other again, takes it out of
// the free set, gives it to the driver, and forgets it.
class DeviceAllocator::Trim {
 public:
  // pre: the device's lock. Of the shards one at a time is held, and none while the driver frees.
  Trim(DeviceAllocator& device, const TrimGoal& goal, ContextId context)
      : device_(device), goal_(goal), context_(context) {}

  void run(uint64_t* released);

 private:
  struct Candidate {
    Shard* shard;
    Block* block;
    // As they were; the block may have changed since.
    Address address;
    int64_t segment_number;
    uint64_t idle_since;
  };

  std::vector<BlockPool*> pools();
  std::vector<Candidate> collect(const std::vector<BlockPool*>& pools);
  void mark(Block* block) const;
  bool has_idled_enough(const Block* block) const;
  bool is_before(const Candidate& a, const Candidate& b) const;
  bool is_still_idle(const Candidate& candidate) const;
  void release(const Candidate& candidate);
  void take_out(Block* block);
  void put_back(Block* block);
  void release_segment(Block* block, std::unique_lock<Lock>& guard);
  void release_pages(Block* block);
  void drop_what_is_empty(const std::vector<BlockPool*>& pools);

  DeviceAllocator& device_;
  const TrimGoal& goal_;
  const ContextId context_;
};

void DeviceAllocator::Trim::run(uint64_t* released) {
  const std::vector<BlockPool*> trimmed = pools();
  for (const Candidate& candidate : collect(trimmed)) {
    const uint64_t before = device_.stats_.reserved();
    if (before <= goal_.keep_bytes) break;
    release(candidate);
    *released += before - device_.stats_.reserved();
  }
  drop_what_is_empty(trimmed);
}

// Graphs rely on the addresses of their pools, so a pool in use keeps its memory.
std::vector<BlockPool*> DeviceAllocator::Trim::pools() {
  std::vector<BlockPool*> found{&device_.heap_.default_pool(false),
                                &device_.heap_.default_pool(true)};
  for (const PoolId id : device_.pools_.releasable()) {
    PrivatePool& pool = *device_.pools_.find(id);
    found.push_back(&pool.small);
    found.push_back(&pool.large);
  }
  return found;
}

// Longest idle first. Skips blocks below the smallest segment or page: the driver could have nothing of
// them.
std::vector<DeviceAllocator::Trim::Candidate> DeviceAllocator::Trim::collect(
    const std::vector<BlockPool*>& pools) {
  std::vector<Candidate> found;
  for (BlockPool* pool : pools) {
    for (auto& [stream, list] : pool->lists) {
      const auto guard = device_.lock_at(*list.shard);
      Block* block = list.free.first_at_least(kSmallSegment);
      for (; block; block = list.free.next(block)) {
        if (releasable_bytes(block) == 0) continue;
        mark(block);
        if (has_idled_enough(block))
          found.push_back({list.shard, block, block->address, block->segment()->number,
                           block->detail().idle_since});
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [&](const Candidate& a, const Candidate& b) { return is_before(a, b); });
  return found;
}

void DeviceAllocator::Trim::mark(Block* block) const {
  if (block->is(Block::kIdle)) return;
  block->set(Block::kIdle);
  block->detail().idle_since = goal_.now_ns;
}

bool DeviceAllocator::Trim::has_idled_enough(const Block* block) const {
  const uint64_t since = block->detail().idle_since;
  return goal_.now_ns - std::min(since, goal_.now_ns) >= goal_.min_idle_ns;
}

// Ties as among free blocks of one size (R2).
bool DeviceAllocator::Trim::is_before(const Candidate& a, const Candidate& b) const {
  const auto order = [&](const Candidate& c) {
    const int64_t number = device_.rules_.ties_by_segment_number ? c.segment_number : 0;
    return std::tuple(c.idle_since, number, c.address);
  };
  return order(a) < order(b);
}

bool DeviceAllocator::Trim::is_still_idle(const Candidate& candidate) const {
  const Block* block = candidate.block;
  return block->address == candidate.address && block->is_free() && block->is(Block::kIdle) &&
         block->detail().idle_since == candidate.idle_since && releasable_bytes(block) != 0;
}

// The block may be gone by now, but not its shard: shards live as long as their device.
void DeviceAllocator::Trim::release(const Candidate& candidate) {
  auto guard = device_.lock_at(*candidate.shard);
  if (!is_still_idle(candidate)) return;
  if (candidate.block->is(Block::kExpandable)) {
    release_pages(candidate.block);
  } else {
    release_segment(candidate.block, guard);
  }
}

// Only calls on this shard wait for the driver meanwhile.
void DeviceAllocator::Trim::release_pages(Block* block) {
  const Away away(device_, &shard_of(block));
  device_.unmap_block(block, context_);
}

// No search finds a waiting block, and no neighbour merges with it.
void DeviceAllocator::Trim::take_out(Block* block) {
  SegmentHeap::remove_free(block);
  block->set(Block::kWaiting);
}

// Its flag, its time and its age stay as they were.
void DeviceAllocator::Trim::put_back(Block* block) {
  block->clear(Block::kWaiting);
  list_of(block).free.insert(block);
}

void DeviceAllocator::Trim::release_segment(Block* block, std::unique_lock<Lock>& guard) {
  device_.announce_release(block, context_);
  take_out(block);
  guard.unlock();  // the driver may wait for the whole device; hits go on meanwhile
  const DriverCode code = device_.give_segment_to_driver(block);
  guard.lock();
  if (code != kSuccess) {
    put_back(block);
    throw runtime_error(device_.driver_, code);
  }
  device_.forget_segment(block);
}

// The end of a trim, the same as when the cache is emptied.
void DeviceAllocator::Trim::drop_what_is_empty(const std::vector<BlockPool*>& pools) {
  for (BlockPool* pool : pools) device_.drop_empty_lists(*pool);
  for (const PoolId id : device_.pools_.releasable()) {
    if (device_.pools_.find(id)->is_empty()) device_.pools_.destroy_if_empty(id);
  }
  device_.shared_.addresses.shrink();
}

// ---- Calls

// Does nothing while a capture may be under way: calls of the driver could spoil it.
void DeviceAllocator::trim(const TrimGoal& goal, uint64_t* released) {
  const ContextId context = recorder_.capture_context(ContextLevel::kAll);
  if (has(kPendingFrees)) {
    const Hold hold(*this);
    if (!captures_.may_be_under_way()) pending_.process_events(context);
  }
  const std::lock_guard guard(lock_);
  if (!captures_.may_be_under_way()) Trim(*this, goal, context).run(released);
}

}  // namespace cachalot
