// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks for other processes [core 23.2, exp 7]: what they need to open the memory under a
// block, and blocks that are held until those processes are done.
//
// Note [Shared blocks]
// Rationale: another process's use of a block shows nowhere. A caller that frees such a block
// hands it to the next request while the other process still reads it.
// Approach: a block that is held has the flag kShared, with which no free of its caller's
// is a hit, and each is refused. Its holder ends that before the one free that counts
// (block_exchange.h).
#pragma once

#include <optional>

#include "alloc/native/device_state.h"
#include "alloc/sharing/shared_memory.h"

namespace cachalot {

// pre of all functions: no lock of the device. block: what the address table names for the
// address.
class BlockSharing : private DeviceOperation {
 public:
  explicit BlockSharing(DeviceState& device) : DeviceOperation(device) {}

  // Throws where the driver cannot share memory.
  void require_driver();
  // Nothing: no live block begins at the address. Throws where its memory cannot be shared.
  // holds: it is to be held as well. Throws for one that is held already.
  std::optional<SharedBlock> share(Block* block, Address address, bool holds);
  // It is its caller's again. False: it is not held.
  bool end_hold(Block* block, Address address);
  // Other devices that reach what is opened here, in the order in which they were given
  // access.
  std::vector<int> peers();

 private:
  SharedMemory memory_of_segment(const Segment& segment);
  SharedBlock share_pages(const Block* block);
};

}  // namespace cachalot
