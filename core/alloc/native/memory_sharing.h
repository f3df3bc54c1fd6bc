// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory between processes: blocks of this allocator for others, and memory of others here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/backend/shared_state.h"
#include "alloc/sharing/opened_memory.h"
#include "alloc/sharing/shared_memory.h"

namespace cachalot {

class DeviceAllocator;

// Finds the device of a call, and the block of an address. Blocks that bypass the cache,
// pinned memory and memory of the driver's own pools are none of these: nothing begins at
// their addresses here. Every function throws Error; any thread.
class MemorySharing {
 public:
  using Devices = std::vector<std::unique_ptr<DeviceAllocator>>;

  // Both outlive it.
  MemorySharing(SharedState& shared, const Devices& devices);

  // What another process needs to open the memory under a live block. It says nothing of
  // how long the block lives.
  SharedBlock share(Address address) { return share(address, false); }
  // The same for a block that only end_hold() makes free again.
  SharedBlock hold(Address address) { return share(address, true); }
  bool end_hold(Address address);  // false: the block is gone, or is not held

  // Where the memory begins here. Each open needs its close. name: as OpenedMemory::open.
  Address open(int device, const std::string& name, const SharedMemory& memory);
  void close(Address address) { opened_.close(address); }
  // By which a driver's segment is opened once, however it came here.
  std::string name_of(const SharedMemory& memory) const { return to_bytes(memory, shared_.rules); }

  // The same in the reference's bytes.
  std::string share_as_bytes(Address address, uint64_t* offset);
  Address open_bytes(int device, std::string_view bytes);

  OpenedMemory& opened() { return opened_; }

 private:
  SharedBlock share(Address address, bool holds);

  SharedState& shared_;
  const Devices& devices_;
  OpenedMemory opened_;
};

}  // namespace cachalot
