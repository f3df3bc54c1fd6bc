// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/counters.h"

#include <cstdlib>
#include <utility>

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
  Row& kind = rows_[is_small ? kSmall : kLarge];
  kind.freed[kCount] += rounds;
  kind.freed[kBytes] += rounds * change.bytes;
  kind.freed[kRequested] += rounds * change.requested;
  kind.freed[kSplit] += rounds * std::abs(change.split_count);
  kind.freed[kSplitBytes] += rounds * std::abs(change.split_bytes);
  if (!apart_) return;
  kind.freed[kActive] += rounds;
  kind.freed[kActiveBytes] += rounds * change.bytes;
}

void Counters::keep_active_apart() {
  if (apart_) return;
  apart_ = true;
  for (Row& row : rows_) {
    for (auto [from, to] : {std::pair{kCount, kActive}, {kBytes, kActiveBytes}}) {
      row.head[to] = row.head[from];
      row.peak[to] = row.peak[from];
      row.freed[to] = row.freed[from];
      row.base[to] = row.base[from];
    }
  }
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
  stats->active = array(apart_ ? kActive : kCount);
  stats->active_bytes = array(apart_ ? kActiveBytes : kBytes);
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
