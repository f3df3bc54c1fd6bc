// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/counters.h"

#include <cstdlib>

namespace cachalot {

void Counters::raise_peaks(Row& kind) {
  for (Row* row : {&kind, &rows_[kAll]}) {
    for (int counter = 0; counter < kCounters; counter++) {
      if (row->head[counter] >= 0) continue;
      row->peak[counter] -= row->head[counter];
      row->head[counter] = 0;
    }
  }
}

void Counters::add_rounds(bool is_small, const HandOut& change, int64_t rounds) {
  int64_t(&freed)[kCounters] = row(is_small).freed;
  freed[kCount] += rounds;
  freed[kBytes] += rounds * change.bytes;
  freed[kSplit] += rounds * std::abs(change.split_count);
  freed[kSplitBytes] += rounds * std::abs(change.split_bytes);
  freed[kActive] += rounds;
  freed[kActiveBytes] += rounds * change.bytes;
  freed[kRequested] += rounds * change.requested;
}

Stat Counters::stat(int row, int counter) const {
  const Row& r = rows_[row];
  const int64_t freed =
      row == kAll ? rows_[kSmall].freed[counter] + rows_[kLarge].freed[counter] : r.freed[counter];
  const int64_t current = r.current(counter);
  return {current, r.peak[counter], current - r.base[counter] + freed, freed};
}

StatArray Counters::array(int counter) const {
  return {stat(kAll, counter), stat(kSmall, counter), stat(kLarge, counter)};
}

void Counters::read(Stats* stats) const {
  stats->allocation = array(kCount);
  stats->allocated_bytes = array(kBytes);
  stats->requested_bytes = array(kRequested);
  stats->inactive_split = array(kSplit);
  stats->inactive_split_bytes = array(kSplitBytes);
  stats->active = array(kActive);
  stats->active_bytes = array(kActiveBytes);
}

void Counters::reset_peak() {
  for (Row& row : rows_) {
    for (int counter = 0; counter < kCounters; counter++) {
      row.peak[counter] = row.current(counter);
      row.head[counter] = 0;
    }
  }
}

void Counters::reset_accumulated() {
  for (Row& row : rows_) {
    for (int counter = 0; counter < kCounters; counter++) {
      row.freed[counter] = 0;
      row.base[counter] = row.current(counter);
    }
  }
}

}  // namespace cachalot
