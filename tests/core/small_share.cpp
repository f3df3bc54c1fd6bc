// SPDX-License-Identifier: MIT OR Apache-2.0
// Linked into a program, this lends shards next to nothing, so that nearly each of their calls refills
// or collects.
#include "alloc/peaks.h"

namespace {

struct SmallShare {
  SmallShare() { cachalot::Peaks::largest_share = CACHALOT_SHARE; }
};

const SmallShare small_share;

}  // namespace
