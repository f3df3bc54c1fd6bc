// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts that the memory of one device is made of. Each part owns its state and keeps its invariants;
// none knows this file. The operations that the parts serve together are classes of their own, derived
// from DeviceOperation:
//
//   hot_path.h              a hit and a usual free, as inline functions; attributed_hits.cpp: the same
//                           with labels, tenants and history
//   general_path.h          any request, any free
//   block_cache.h           the search for a free block, its hand-out, its way back
//   miss.h                  the steps of a request that the cache cannot serve
//   cache_policy.h          the same, where a policy of the library's own decides
//   segment_limits.h        which segments the limits and the options allow
//   failed_request.h        the end of a request without memory; oom_hints.h: which options would have
//                           helped
//   new_range.h             whether the driver's answer is a range that can be used
//   plain_segments.h        segments from the driver, and back to it
//   expandable_memory.h     segments that grow and shrink by pages
//   cache_release.h         garbage collection, and cached memory back to the driver
//   trim.h                  the same for memory that has been idle
//   admission.h             what tenants are granted
//   report_taker.h          what holds the memory, and what keeps a request from it
//   snapshot_taker.h        copies of all blocks, while others go on
//   auditor.h               compares the parts with each other
//
// DeviceAllocator (device_allocator.h) locks the device and calls them.
#pragma once

#include <memory>
#include <optional>

#include "alloc/backend/shared_state.h"
#include "alloc/debug/memory_watch.h"
#include "alloc/heap/segment_heap.h"
#include "alloc/native/cache_policy.h"
#include "alloc/native/device_settings.h"
#include "alloc/native/expandable_segments.h"
#include "alloc/pools/private_pool.h"
#include "alloc/pools/private_pools.h"
#include "alloc/shards/shards.h"
#include "alloc/stats/device_stats.h"
#include "alloc/streams/pending_frees.h"
#include "alloc/sync/slow_path_flags.h"
#include "alloc/tenants/block_owners.h"
#include "alloc/trace/trace_recorder.h"

namespace cachalot {

class DeviceState final : private FreeCompletion, private SlowPath {
 public:
  // allocator: found in each shard. make_policy: empty where the reference decides.
  DeviceState(SharedState& shared_state, int device, DeviceAllocator* allocator,
              const MakeCachePolicy& make_policy = {});
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // Null: nothing is watched, or the memory is from a source that is not the driver.
  MemoryWatch* watch_of(const BlockPool& pool) const {
    return flags.has(kWatched) && !has_source(pool) ? watch.get() : nullptr;
  }
  void trace(Action action, Address address, uint64_t size, Stream stream, const BlockPool& pool,
             ContextId context) {
    recorder.record(action, address, size, stream, pool_id_of(pool), context);
  }
  // That a block in use was handed out to. pre: the device's lock.
  Stream stream_of(const Block* block) const {
    return block->is(Block::kForeign) ? policy->user_of(block) : block->segment()->stream;
  }
  // Whose call one for a block in use, or one that waits, counts as, where the caller does not tell. None: the
  // stream has ended, so its handle is not to be used. pre: the device's lock.
  std::optional<Stream> assumed_caller(const Block* block) const {
    const bool has_ended = block->is(Block::kForeign) && policy->has_user_ended(block);
    return has_ended ? std::nullopt : std::optional(stream_of(block));
  }
  template <class Visit>
  void for_each_list(Visit visit);

  // Read by every call, and seldom written.
  SlowPathFlags flags;
  DeviceSettings settings;
  SharedState& shared;
  const int index;
  SegmentHeap heap;
  Shards shards;
  PrivatePools pools;
  Captures captures;
  PendingFrees pending;
  ExpandableSegments expandable;
  DeviceStats stats;  // those that the shards do not count
  BlockOwners owners;
  TraceRecorder recorder;
  std::unique_ptr<MemoryWatch> watch;   // null: off
  std::unique_ptr<CachePolicy> policy;  // null: the reference's

 private:
  void complete_free(Block* block, ContextId context) override;
};

template <class Visit>
void DeviceState::for_each_list(Visit visit) {
  const auto visit_pool = [&](BlockPool& pool) {
    for (auto& [stream, list] : pool.lists) visit(list);
  };
  for (const bool is_small : {false, true}) visit_pool(heap.default_pool(is_small));
  for (auto& [id, pool] : pools.all()) visit_pool(pool->small), visit_pool(pool->large);
}

// What one call does with the parts of a device. pre of all functions: the whole device, unless one
// says that a shard is enough; those that unlock it meanwhile take the DeviceLock as an argument.
class DeviceOperation : protected SlowPath {
 protected:
  explicit DeviceOperation(DeviceState& device) : device_(device) {}

  bool has(uint32_t flags) const { return device_.flags.has(flags); }
  const Settings& settings() const { return device_.settings.settings(); }
  uint64_t limit() const { return device_.settings.limit(); }
  const Rules& rules() const { return device_.shared.rules; }
  Driver& driver() const { return device_.shared.driver; }

  DeviceState& device_;
};

}  // namespace cachalot
