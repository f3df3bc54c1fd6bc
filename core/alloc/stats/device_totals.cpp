// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/device_totals.h"

#include <algorithm>

#include "base/units.h"
#include "device/driver_error.h"

namespace cachalot {

DeviceTotals totals_of(Driver& driver, int device, uint64_t reserved) {
  DeviceTotals totals{};
  uint64_t available = 0;
  const DriverCode code = driver.memory_info(device, &available, &totals.total);
  if (code != kSuccess) throw runtime_error(driver, code);
  totals.used = totals.total - available;
  totals.reserved = reserved;
  // A driver may count what is free in other steps than what it gave.
  totals.outside = totals.used - std::min(totals.used, reserved);
  return totals;
}

// The management library answers kUnlimited for a process whose memory it cannot see.
std::map<uint64_t, uint64_t> bytes_by_process(Driver& driver, int device) {
  std::map<uint64_t, uint64_t> bytes;
  // A driver may list a process more than once.
  for (const DeviceProcess& process : driver.processes(device)) {
    if (process.used != kUnlimited) bytes[process.pid] += process.used;
  }
  return bytes;
}

}  // namespace cachalot
