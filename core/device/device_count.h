// SPDX-License-Identifier: MIT OR Apache-2.0
// How many devices a driver may have, and whether one of them exists.
#pragma once

#include "base/error.h"
#include "base/text.h"

namespace cachalot {

inline constexpr int kMaxDevices = 1024;

// Returns the count; throws Error(kInvalidArgument) for one that no driver can have.
inline int checked_device_count(int count) {
  if (count >= 1 && count <= kMaxDevices) return count;
  throw_invalid_argument(format("device_count is %d, not 1 to %d", count, kMaxDevices));
}

// Throws Error(kInvalidArgument) for a device that a driver with so many does not have.
inline void require_device(int index, int count) {
  if (index >= 0 && index < count) [[likely]]
    return;
  throw_invalid_argument(format("device %d does not exist; the driver has %d", index, count));
}

}  // namespace cachalot
