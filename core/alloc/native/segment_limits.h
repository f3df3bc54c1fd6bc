// SPDX-License-Identifier: MIT OR Apache-2.0
// What refuses a segment before the driver is asked for it.
#pragma once

#include "alloc/native/alloc_params.h"
#include "alloc/native/device_state.h"

namespace cachalot {

// Bytes, as the driver says.
struct DeviceMemory {
  uint64_t available;
  uint64_t total;
};

class SegmentLimits : private DeviceOperation {
 public:
  explicit SegmentLimits(DeviceState& device) : DeviceOperation(device) {}

  // By the limit that a call or a fraction has set. pre: the device's lock.
  bool is_over_limit(const AllocParams& params) const;
  // By the option's fraction of the device's memory (R31). pre: the device's lock.
  bool is_rejected(const AllocParams& params) const;

  // Throws what the driver says.
  DeviceMemory device_memory() const;
};

}  // namespace cachalot
