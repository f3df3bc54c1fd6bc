// SPDX-License-Identifier: MIT OR Apache-2.0
// What the settings of a device say of hits.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace cachalot {

struct HitRules {
  uint64_t oversize = kUnlimited;  // a block from this size on is oversize [core 6.6]
  uint64_t oversize_slack = 0;     // an oversize block exceeds its request by less than this
  bool is_expandable = false;
  uint64_t least_remainder[2] = {};  // by is_small
};

}  // namespace cachalot
