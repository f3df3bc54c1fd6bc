// SPDX-License-Identifier: MIT OR Apache-2.0
// The options of the serving policy (docs/policy.md), which are not the reference's.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace cachalot {

struct ServingOptions {
  bool is_on = false;
  uint64_t page_bytes = 2 * MiB;  // a power of two
  bool thrift = false;            // idle pages serve before new ones
};

}  // namespace cachalot
