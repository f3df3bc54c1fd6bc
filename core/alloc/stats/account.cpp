// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/account.h"

#include <utility>

#include "base/assert.h"

namespace cachalot {

void Account::become_own(uint64_t recall_number) {
  CACHALOT_ASSERT(2, !counters.has_headroom());
  is_shared = false;
  met_others = false;
  idle_visits = 0;
  frees_when_visited = 0;
  joined = recall_number;
}

bool Account::note_visit() {
  const int64_t frees = counters.frees();
  const bool is_idle = !std::exchange(met_others, false) &&
                       frees - std::exchange(frees_when_visited, frees) < kFewFrees;
  // A shard that met another thread is busy, however few of its frees there were.
  idle_visits = is_idle ? idle_visits + 1 : 0;
  return idle_visits >= kIdleVisits;
}

}  // namespace cachalot
