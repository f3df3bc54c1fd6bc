// SPDX-License-Identifier: MIT OR Apache-2.0
// Shards: parts of a device that threads use at the same time, each under a lock of its own.
//
// Note [Shards]
// Rationale: requests of different streams never share a free block, so they need not wait for each
// other either; only what is counted goes over all streams. Some calls have to stop all of them, and
// servers make thousands of streams, so the number of locks has a bound.
// Approach: each stream belongs to a shard (stream_table.h): the first kMaxShards streams to one each,
// later streams to these in turn. All blocks of a segment belong to the shard of its stream for life. A
// hit or a usual free takes that shard's lock only. A call that needs more takes the device's lock
// first; with it, one shard more (a miss: the others go on), or the whole device: it sets kHeld, and
// visits every shard once under its lock, after which each call that comes sees the flag and waits for
// the device's lock (device_lock.h). While a flag of kWholeDevice is set, that lock alone is enough.
// The order of the locks is that of base/lock_rank.h.
#pragma once

#include <cstdint>

#include "alloc/heap/block_pool.h"
#include "alloc/heap/block_supply.h"
#include "alloc/shards/last_free_cache.h"
#include "alloc/stats/peaks.h"
#include "base/lock.h"

namespace cachalot {

class DeviceAllocator;

struct alignas(64) Shard {
  explicit Shard(DeviceAllocator* owner) : device(owner), supply(this) {}

  Lock lock{LockRank::kShard, Lock::Looks::kSeldom};
  DeviceAllocator* const device;
  BlockSupply supply;
  LastFreeCache last;
  Account account;
  uint32_t preserves_for = 0;  // the copy that the present call preserves blocks for; 0: none
  uint32_t changed_for = 0;    // the last copy since which a block was changed
};

// More threads than this seldom allocate at the same time, and a visit of all takes microseconds.
constexpr size_t kMaxShards = 64;

}  // namespace cachalot
