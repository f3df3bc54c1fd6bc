// SPDX-License-Identifier: MIT OR Apache-2.0
// The sizes that a recorded program asks for, as far as options can be made of them.
#pragma once

#include <cstdint>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

struct RequestSizes {
  // Whole MiB, ascending, without repeats: sizes of large requests, rounded down and up, that weigh most by their bytes.
  std::vector<uint32_t> limits_mb;
  // Powers of two in MiB: intervals [n, 2n) in which requests of several sizes lie.
  std::vector<uint32_t> mixed_intervals_mb;
};

RequestSizes request_sizes(const cachalot_trace* trace);

}  // namespace cachalot::cli
