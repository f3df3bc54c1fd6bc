// SPDX-License-Identifier: MIT OR Apache-2.0
// The hits of a device whose misses the serving policy decides: those of hot_path.h, where a free stamps
// its block.
#include <mutex>

#include "alloc/native/hot_path.h"

namespace cachalot::hits {

Address allocate_serving(DeviceState& device, StreamEntry& entry, uint64_t requested,
                         Stream stream) {
  Shard& shard = *entry.shard;
  const auto admit = [](uint64_t) { return true; };
  const std::lock_guard guard(shard.lock);
  if (device.flags.load() != SlowPath::kServing) return 0;
  return address_or_0(shard.account.is_shared
                          ? allocate_usual<CountedBy::kSharedAccount, DecidedBy::kServing>(
                                device, entry, requested, stream, admit)
                          : allocate_usual<CountedBy::kShard, DecidedBy::kServing>(
                                device, entry, requested, stream, admit));
}

bool free_serving(DeviceState& device, Shard& shard, Block* block, Address address) {
  const std::lock_guard guard(shard.lock);
  if (device.flags.load() != SlowPath::kServing || !is_usual_free(block, address) ||
      BlockCache::has_foreign_neighbour(block))
    return false;
  return shard.account.is_shared
             ? put_back<CountedBy::kSharedAccount, DecidedBy::kServing>(device, shard, block)
             : keep_or_put_back<CountedBy::kShard, DecidedBy::kServing>(device, shard, block);
}

}  // namespace cachalot::hits
