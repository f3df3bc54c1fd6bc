// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory of a device as the driver tells it, for all processes, and what the allocator has of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "device/device.h"

namespace cachalot {

// Bytes.
struct DeviceTotals {
  uint64_t total;
  // By all processes, with the bytes that other libraries and the driver itself took.
  uint64_t used;
  uint64_t used_by_process;
  uint64_t reserved;  // by the allocator
  uint64_t outside;   // used, and not reserved
};

// The driver's figures, which a report shows beside the allocator's own.
struct DeviceUse {
  DeviceIdentity identity;
  std::optional<DeviceTotals> totals;      // none: the driver does not tell
  std::map<uint64_t, uint64_t> processes;  // bytes by process id
};

// Fills all fields but used_by_process. Throws Error where the driver does not tell.
DeviceTotals totals_of(Driver& driver, int device, uint64_t reserved);
// Can take milliseconds, so no lock should be held.
std::map<uint64_t, uint64_t> bytes_by_process(Driver& driver, int device);

}  // namespace cachalot
