// SPDX-License-Identifier: MIT OR Apache-2.0
// Any request and any free. Under the lock of one shard where that is enough, else under the device's.
#pragma once

#include <optional>

#include "alloc/native/block_cache.h"
#include "alloc/shards/device_lock.h"

namespace cachalot {

// pre of all functions: no lock of the device.
class GeneralPath : private DeviceOperation {
 public:
  explicit GeneralPath(DeviceState& device) : DeviceOperation(device), cache_(device) {}

  // Throws where there is no memory.
  Address allocate(const Request& request);
  // shard, block: what the address table names for the address. False: not a live block.
  bool free(Shard& shard, Block* block, Address address, std::optional<Stream> current_stream);
  // Of every live block, once the device's work is done.
  void free_all();

 private:
  void prepare_hand_out(Block* block, const AllocParams& params);
  Shards::Step allocate_from_cache(StreamEntry& entry, const Request& request, ContextId context,
                                   Address* address);
  Address allocate_on_device(const Request& request, ContextId context);
  Address allocate_at(const Request& request, ContextId context, DeviceLock& lock);
  void free_what_is_ready(const Request& request, ContextId context);

  BlockCache cache_;
};

}  // namespace cachalot
