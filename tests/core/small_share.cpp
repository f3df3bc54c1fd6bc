// SPDX-License-Identifier: MIT OR Apache-2.0
// Linked into a program, this gives each shard an account of its own and lends it next to nothing, so
// that nearly each of its calls refills or collects.
#include "alloc/stats/peaks.h"

namespace {

struct SmallShare {
  SmallShare() {
    cachalot::Peaks::largest_share = CACHALOT_SHARE;
    cachalot::Peaks::shares_account = false;
  }
};

const SmallShare small_share;

}  // namespace
