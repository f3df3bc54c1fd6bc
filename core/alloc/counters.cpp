// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/counters.h"

#include <algorithm>
#include <cstdlib>

#include "base/sums.h"

namespace cachalot {

void Counters::raise_limits(Row& kind) {
  for (Row* row : {&kind, &rows_[kAll]}) {
    for (size_t counter = 0; counter < kCounters; counter++) {
      if (row->head[counter] < 0) row->raise_limit(counter, -row->head[counter]);
    }
  }
}

bool Counters::move(bool is_small, const Move& move, bool may_raise) {
  Row& kind = rows_[kind_of(is_small)];
  Row& all = rows_[kAll];
  int64_t signs = 0;
  for (int counter = 0; counter < kCounters; counter++) {
    signs |= (kind.head[counter] - move.by[counter]) | (all.head[counter] - move.by[counter]);
  }
  if (signs < 0 && !may_raise) return false;
  for (int counter = 0; counter < kCounters; counter++) {
    kind.head[counter] -= move.by[counter];
    all.head[counter] -= move.by[counter];
    kind.freed[counter] =
        wrapping_add(kind.freed[counter], -std::min<int64_t>(move.by[counter], 0));
  }
  if (signs < 0) raise_limits(kind);
  return true;
}

bool Counters::is_sound() const {
  for (const Row& row : rows_) {
    for (const int64_t head : row.head) {
      if (head < 0) return false;
    }
  }
  return true;
}

void Counters::reset_accumulated() {
  for (Row& row : rows_) {
    for (int64_t& freed : row.freed) freed = 0;
  }
}

void Counters::take_over(Counters& other) {
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++) {
      rows_[name].limit[counter] += other.rows_[name].limit[counter];
      rows_[name].freed[counter] =
          wrapping_add(rows_[name].freed[counter], other.rows_[name].freed[counter]);
    }
  }
  other.rows_ = {};
}

int64_t Counters::frees() const {
  return rows_[kSmall].freed[kCount] + rows_[kLarge].freed[kCount];
}

void Counters::add_rounds(bool is_small, const HandOut& change, int64_t rounds) {
  Values& freed = rows_[kind_of(is_small)].freed;
  const auto add = [&](Counter counter, int64_t by) {
    freed[counter] = wrapping_add(freed[counter], wrapping_multiply(rounds, by));
  };
  add(kCount, 1);
  add(kBytes, change.bytes);
  add(kSplit, std::abs(change.split_count));
  add(kSplitBytes, std::abs(change.split_bytes));
  add(kActive, 1);
  add(kActiveBytes, change.bytes);
  add(kRequested, change.requested);
}

}  // namespace cachalot
