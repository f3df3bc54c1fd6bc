// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/shard_stats.h"

#include "base/sums.h"

namespace cachalot {

void ShardStats::Sums::add(const Counters::Rows& other) {
  for (size_t name = 0; name < Counters::kRowCount; name++) {
    for (size_t counter = 0; counter < Counters::kCounters; counter++) {
      rows[name].head[counter] += other[name].head[counter];
      rows[name].freed[counter] =
          wrapping_add(rows[name].freed[counter], other[name].freed[counter]);
      rows[name].limit[counter] += other[name].limit[counter];
    }
  }
}

// The row of all keeps no `freed`. What was allocated follows: it is what was freed and what is there.
Stat ShardStats::stat(const Sums& sums, size_t row, size_t counter) const {
  const int64_t freed = row == Counters::kAll
                            ? wrapping_add(sums.rows[Counters::kSmall].freed[counter],
                                           sums.rows[Counters::kLarge].freed[counter])
                            : sums.rows[row].freed[counter];
  // The sum of all limits is the peak: Note [Peaks].
  const int64_t current = sums.rows[row].current(counter);
  return {current, sums.rows[row].limit[counter], add_to_sum(current - base_[row][counter], freed),
          shown_sum(freed)};
}

void ShardStats::write(const Sums& sums, Stats* stats) const {
  const auto array = [&](size_t counter) {
    return StatArray{stat(sums, Counters::kAll, counter), stat(sums, Counters::kSmall, counter),
                     stat(sums, Counters::kLarge, counter)};
  };
  stats->allocation = array(Counters::kCount);
  stats->allocated_bytes = array(Counters::kBytes);
  stats->requested_bytes = array(Counters::kRequested);
  stats->inactive_split = array(Counters::kSplit);
  stats->inactive_split_bytes = array(Counters::kSplitBytes);
  active_counts_.write(stats);
  // The reference has no oversize allocations by size class.
  stats->oversize_allocations = stat(sums, Counters::kAll, Counters::kOversize);
}

void ShardStats::reset_accumulated(const Sums& sums) {
  for (size_t name = 0; name < Counters::kRowCount; name++) {
    for (size_t counter = 0; counter < Counters::kCounters; counter++)
      base_[name][counter] = sums.rows[name].current(counter);
  }
  active_counts_.reset_accumulated();
}

}  // namespace cachalot
