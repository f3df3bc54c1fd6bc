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
#include "failure.h"

namespace cachalot::cli {

// Calls see(event) for each.
template <class See>
void for_each_event(const cachalot_trace* trace, See see) {
  cachalot_trace_info info{};
  info.struct_size = sizeof info;
  check(cachalot_trace_get_info(trace, &info));
  cachalot_trace_event event{};
  event.struct_size = sizeof event;
  for (size_t i = 0; i < info.event_count; i++) {
    check(cachalot_trace_get_event(trace, i, &event));
    see(event);
  }
}

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
