// SPDX-License-Identifier: MIT OR Apache-2.0
// What trace format 2 says of an event beside what format 1 says.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace cachalot {

struct EventDetail {
  int64_t cost_ns = -1;         // of the driver's call; -1: not said
  int64_t wait_ns = -1;         // of that, for work of the device; -1: not said
  uint64_t thread = 0;          // of the system; 0: not said
  Stream freed_on = 0;          // of a free: the stream that it is ordered on
  uint64_t driver_context = 0;  // 0: the primary one of the device
  char entry = 0;               // a letter: how the program asked; 0: not said
};

}  // namespace cachalot
