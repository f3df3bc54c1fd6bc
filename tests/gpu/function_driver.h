// SPDX-License-Identifier: MIT OR Apache-2.0
// A driver of the library made of CUDA's functions, one of which can be left out: a planted fault.
#pragma once

#include "check.h"

namespace gpu {

enum class LeftOut {
  kNothing,
  kStreamWait,  // no stream waits for another [policy P10]
  kHostWait,    // the host waits for no stream [policy P9]
};

// The caller owns one reference. Without captures and without stream-ordered memory.
cachalot_driver* make_function_driver(LeftOut left_out);

}  // namespace gpu
