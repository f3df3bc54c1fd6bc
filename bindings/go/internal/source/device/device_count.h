// SPDX-License-Identifier: MIT OR Apache-2.0
// How many devices a driver may have.
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

}  // namespace cachalot
