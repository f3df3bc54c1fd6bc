// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/memory_sharing.h"

#include "alloc/native/block_sharing.h"
#include "alloc/native/device_allocator.h"
#include "base/text.h"
#include "device/device_count.h"

namespace cachalot {

MemorySharing::MemorySharing(SharedState& shared, const Devices& devices)
    : shared_(shared),
      devices_(devices),
      opened_(shared.driver, shared.handle_types, shared.rules) {}

SharedBlock MemorySharing::share(Address address, bool holds) {
  const auto [shard, block] = shared_.find(address);
  if (!shard) throw invalid_pointer(address);
  const auto shared = BlockSharing(shard->device->state()).share(block, address, holds);
  if (!shared) throw invalid_pointer(address);
  return *shared;
}

bool MemorySharing::end_hold(Address address) {
  const auto [shard, block] = shared_.find(address);
  return shard && BlockSharing(shard->device->state()).end_hold(block, address);
}

Address MemorySharing::open(int device, const std::string& name, const SharedMemory& memory) {
  require_device(device, static_cast<int>(devices_.size()));
  BlockSharing blocks(devices_[static_cast<size_t>(device)]->state());
  blocks.require_driver();
  return opened_.open(device, name, memory, blocks.peers());
}

std::string MemorySharing::share_as_bytes(Address address, uint64_t* offset) {
  const SharedBlock block = share(address);
  *offset = block.offset;
  return to_bytes(block.memory, shared_.rules);
}

// Its own bytes are the name, since those of another process can have padding that means
// nothing (U15).
Address MemorySharing::open_bytes(int device, std::string_view bytes) {
  const SharedMemory memory = read_shared_memory(bytes, shared_.rules);
  return open(device, name_of(memory), memory);
}

}  // namespace cachalot
