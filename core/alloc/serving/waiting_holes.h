// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses whose pages have moved away, but which the device may still use [policy P9].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/heap/block_pool.h"
#include "alloc/native/device_state.h"

namespace cachalot {

// Unmaps them once the device is done with them. pre of all functions: the whole device.
class WaitingHoles : private DeviceOperation {
 public:
  explicit WaitingHoles(DeviceState& device) : DeviceOperation(device) {}

  bool is_empty() const { return holes_.empty(); }
  // Makes room, so that the next add() cannot fail. Throws std::bad_alloc.
  void reserve_one();
  // hole: what ExpandableMemory::take_pages() has left. stamp: of the latest work on it; 0: it is done.
  void add(Block* hole, uint64_t stamp);
  // Ends those with this stamp or an earlier one, with whose work the device is done. A range of a stream that
  // has ended goes with its last page, but for the one to keep; null: none.
  void end_until(uint64_t stamp, const Segment* keep);

  // The auditor: empty, or the first thing that is wrong.
  std::string check() const;

 private:
  struct Hole {
    Block* block;
    uint64_t stamp;
    BlockPool::Unmapped::node_type place;  // for the time when it is a hole like others
  };

  void end(Hole hole, const Segment* keep);

  std::vector<Hole> holes_;  // in the order in which their pages moved
  BlockPool::Unmapped::node_type next_place_;
};

}  // namespace cachalot
