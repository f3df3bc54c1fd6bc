// SPDX-License-Identifier: MIT OR Apache-2.0
// The auditor: walks through all blocks of a device, and compares them with the indexes and counters.
// Each finding is a defect of the library, told in one line.
#pragma once

#include <string>

#include "alloc/native/device_state.h"

namespace cachalot {

// pre of all functions: the whole device.
class Auditor : private DeviceOperation {
 public:
  explicit Auditor(DeviceState& device) : DeviceOperation(device) {}

  // Empty, or the first thing that is wrong.
  std::string check();
  // The first live block that was written beyond its end; empty: none, or there are no red zones.
  std::string check_red_zones();

 private:
  std::string check_segment(const Segment& segment);
  std::string check_free_sets();
  std::string check_counters();
  std::string check_whole_blocks();
  std::string check_pending();
  std::string check_sleeping();
};

}  // namespace cachalot
