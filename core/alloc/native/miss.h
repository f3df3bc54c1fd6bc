// SPDX-License-Identifier: MIT OR Apache-2.0
// A request that the cache cannot serve: the ladder from callbacks over the driver and releases to the
// last attempt [core 8.6 to 8.11].
#pragma once

#include "alloc/native/block_cache.h"
#include "alloc/native/cache_release.h"
#include "alloc/shards/device_lock.h"

namespace cachalot {

// The steps of one miss, in the order that decides which addresses a program gets. Lives on the
// stack of its request.
class Miss : private DeviceOperation {
 public:
  // The lock has the shard of the request, or the whole device. A miss locks more on its way, and
  // unlocks what calls into the driver and into callbacks need.
  Miss(DeviceState& device, AllocParams& params, DeviceLock& lock)
      : DeviceOperation(device), params_(params), lock_(lock), cache_(device), release_(device) {}

  // A block in no set. Throws where there is no memory.
  Block* obtain();

 private:
  enum class Attempt { kFirst, kRetry };

  Block* climb_ladder();
  Block* obtain_by_policy();
  Block* ask_tenants();
  // Null (here and below): the step gave no block, and the next one is tried.
  Block* lock_whole_and_search();
  Block* run_free_memory_callbacks();
  Block* alloc_block(Attempt attempt);
  std::optional<Address> ask_driver();
  // True: a pool that opted in has served the request, which counts for that pool from then on.
  bool try_mempool_fallback(Block** block);
  void end_fallback(PoolId id, AllocParams& fallback, Block** found);
  void require_no_pending_error();
  bool mend_search(Block** block);
  // Whether no segment could hold the request, so that a release would be in vain.
  bool never_fits();

  AllocParams& params_;
  DeviceLock& lock_;
  BlockCache cache_;
  CacheRelease release_;
};

}  // namespace cachalot
