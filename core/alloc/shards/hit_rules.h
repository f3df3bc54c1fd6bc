// SPDX-License-Identifier: MIT OR Apache-2.0
// What the settings of a device say of hits.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace cachalot {

// Whose rules a hit follows; a constant. Under the serving policy each cached block of the default pools lies
// in an expandable range, and none is oversize.
enum class DecidedBy { kReference, kServing };

struct HitRules {
  uint64_t max_split_size = kUnlimited;
  uint64_t max_non_split_rounding_size = 0;
  bool expandable_segments = false;
  uint64_t least_remainder[2] = {};  // by is_small
  uint64_t clock = 0;  // see Note [Stamps] (serving/stream_order.h); 0: there are no stamps

  bool is_oversize(uint64_t block_size) const {
    return block_size >= max_split_size;
  }  // [core 6.6]
};

}  // namespace cachalot
