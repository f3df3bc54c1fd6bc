// SPDX-License-Identifier: MIT OR Apache-2.0
// The statistics of pinned memory as they are read [pinned 5].
#pragma once

#include "alloc/stats/stats.h"
#include "base/call_times.h"

namespace cachalot {

// What was obtained is counted by PinnedMemory, with real peaks. What is active is counted by the classes of
// PinnedCache, each with a peak of its own. In the order of cachalot_pinned_stats.
struct PinnedStats {
  Stat allocations;  // blocks that were obtained, cached ones too
  Stat allocated_bytes;
  Stat active_requests;  // blocks handed out, or waiting for streams
  Stat active_bytes;
  CallTimes allocate_times;
  CallTimes free_times;
};

// Peaks were reached at different moments: their sum is an estimate, as in the reference.
inline Stat& operator+=(Stat& sum, const Stat& stat) {
  sum.current = wrapping_add(sum.current, stat.current);
  sum.peak = wrapping_add(sum.peak, stat.peak);
  sum.allocated = wrapping_add(sum.allocated, stat.allocated);
  sum.freed = wrapping_add(sum.freed, stat.freed);
  return sum;
}

}  // namespace cachalot
