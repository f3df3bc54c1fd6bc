// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/device_pools.h"

#include <mutex>
#include <set>
#include <utility>

#include "alloc/shards/device_lock.h"
#include "base/error.h"

namespace cachalot {

// Pools are looked up by hits of other streams too, so the whole device is held while one comes.
void DevicePools::create(PoolId id, PoolOptions options) {
  const DeviceLock lock(device_.shards);
  device_.pools.create(id, std::move(options));
}

void DevicePools::set_use_on_oom(PoolId id, bool use) {
  const DeviceLock lock(device_.shards);
  device_.pools.set_use_on_oom(id, use);
}

void DevicePools::set_no_split(PoolId id) {
  const DeviceLock lock(device_.shards);
  device_.pools.set_no_split(id);
}

void DevicePools::set_pinned(PoolId id, bool is_pinned) {
  const DeviceLock lock(device_.shards);
  device_.pools.set_pinned(id, is_pinned);
}

void DevicePools::set_whole_blocks(PoolId id) {
  const DeviceLock lock(device_.shards);
  device_.pools.set_whole_blocks(id);
}

// The device's lock is enough: hits do not move it.
int DevicePools::use_count(PoolId id) {
  const std::lock_guard guard(device_.shards.lock());
  return device_.pools.use_count(id);
}

bool DevicePools::has_live(PoolId id, const std::vector<Address>& addresses) {
  const DeviceLock lock(device_.shards);
  const PrivatePool* pool = device_.pools.find(id);
  if (!pool) throw_invalid_argument("Could not find pool of id");
  require_awake(*pool);
  std::set<Address> live;
  for (const Block* block : device_.heap.used_blocks(*pool)) live.insert(block->address);
  return live == std::set<Address>(addresses.begin(), addresses.end());
}

}  // namespace cachalot
