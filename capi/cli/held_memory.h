// SPDX-License-Identifier: MIT OR Apache-2.0
// How much memory a recorded run has at a moment, by device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

// Bytes.
struct HeldMemory {
  uint64_t requested = 0;  // of blocks
  uint64_t reserved = 0;   // of segments
  uint64_t other = 0;      // outside of any cache
};

class HeldMemories {
 public:
  void see(const cachalot_trace_event& event);
  const HeldMemory& of(int32_t device) const { return devices_[static_cast<size_t>(device)].held; }

 private:
  struct Device {
    HeldMemory held;
    std::unordered_map<uint64_t, uint64_t> blocks;  // bytes by address
    std::unordered_map<uint64_t, uint64_t> others;  // likewise
  };

  static void add(std::unordered_map<uint64_t, uint64_t>* live, uint64_t* sum,
                  const cachalot_trace_event& event);
  static void remove(std::unordered_map<uint64_t, uint64_t>* live, uint64_t* sum, uint64_t address);

  std::vector<Device> devices_;
};

}  // namespace cachalot::cli
