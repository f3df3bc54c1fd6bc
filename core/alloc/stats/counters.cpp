// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/counters.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/assert.h"

namespace cachalot {

// pre: no other account has headroom. Then the limit is the peak itself.
void Counters::raise_limits(Row& kind) {
  for (Row* row : {&kind, &rows_[kAll]}) {
    for (size_t counter = 0; counter < kCounters; counter++) {
      const int64_t missing = -std::min<int64_t>(row->headroom(counter), 0);
      row->raise_limit(counter, missing);
    }
  }
}

// A hit lowers the heads one by one and stops at the first that falls below 0. This call takes these
// steps back, or, if no other account has headroom, does the rest and raises the limits.
[[gnu::noinline]] bool Counters::raise_or_give_back(Row& kind, int64_t bytes, int64_t requested) {
  struct Step {
    int64_t& head;
    int64_t by;
  };
  Row& all = rows_[kAll];
  const Step steps[] = {
      {kind.head[kCount], 1}, {kind.head[kBytes], bytes}, {kind.head[kRequested], requested},
      {all.head[kCount], 1},  {all.head[kBytes], bytes},  {all.head[kRequested], requested}};
  const auto failed = std::find_if(std::begin(steps), std::end(steps),
                                   [](const Step& step) { return step.head < 0; });
  if (!alone_) {
    for (const Step* step = steps; step <= failed; step++) step->head += step->by;
    return false;
  }
  for (const Step* step = failed + 1; step != std::end(steps); step++) step->head -= step->by;
  raise_limits(kind);
  return true;
}

// Before a free of a piece: split bytes and blocks are about to pass their limits.
[[gnu::noinline]] bool Counters::raise_split(Row& kind, int64_t bytes, int64_t split) {
  if (!alone_) return false;
  for (Row* row : {&kind, &rows_[kAll]}) {
    row->raise_limit(kSplitBytes, std::max<int64_t>(bytes - row->headroom(kSplitBytes), 0));
    row->raise_limit(kSplit, std::max<int64_t>(split - row->head[kSplit], 0));
  }
  return true;
}

bool Counters::move(Row& kind, const Move& move, bool may_raise) {
  Row& all = rows_[kAll];
  // The sign of an OR is set if any of the signs is: one branch for all counters.
  int64_t signs = 0;
  for (size_t counter = 0; counter < kCounters; counter++) {
    signs |=
        (kind.headroom(counter) - move.by[counter]) | (all.headroom(counter) - move.by[counter]);
  }
  if (signs < 0 && !may_raise) return false;
  for (size_t counter = 0; counter < kCounters; counter++) {
    kind.add_headroom(counter, -move.by[counter]);
    all.add_headroom(counter, -move.by[counter]);
    kind.freed[counter] =
        wrapping_add(kind.freed[counter], -std::min<int64_t>(move.by[counter], 0));
  }
  if (signs < 0) raise_limits(kind);
  return true;
}

bool Counters::is_sound() const {
  for (const Row& row : rows_) {
    for (size_t counter = 0; counter < kCounters; counter++) {
      if (row.headroom(counter) < 0) return false;
    }
  }
  return true;
}

// Limits stay: peaks are reset by themselves.
void Counters::reset_accumulated() {
  for (Row& row : rows_) {
    for (int64_t& freed : row.freed) freed = 0;
  }
}

// The limits fall to the current values, by what `to` rises: the sum over both, the peak, stays.
void Counters::move_headroom_to(Amounts* to) {
  for (size_t name = 0; name < kRowCount; name++) {
    Row& row = rows_[name];
    for (size_t counter = 0; counter < kCounters; counter++) {
      const int64_t headroom = row.headroom(counter);
      (*to)[name][counter] += headroom;
      row.raise_limit(counter, -headroom);
    }
  }
}

void Counters::move_headroom_from(Amounts* from) {
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++)
      rows_[name].raise_limit(counter, std::exchange((*from)[name][counter], 0));
  }
}

bool Counters::has_headroom() const {
  for (const Row& row : rows_) {
    for (size_t counter = 0; counter < kCounters; counter++) {
      if (row.headroom(counter) != 0) return true;
    }
  }
  return false;
}

void Counters::take_over(Counters& other) {
  CACHALOT_ASSERT(2, !other.has_headroom());
  for (size_t name = 0; name < kRowCount; name++) {
    Row& row = rows_[name];
    const Row& others = other.rows_[name];
    for (size_t counter = 0; counter < kCounters; counter++) {
      row.limit[counter] += others.limit[counter];
      row.freed[counter] = wrapping_add(row.freed[counter], others.freed[counter]);
    }
  }
  other.rows_ = {};
}

// How busy an account has been; wraps around as the sums do.
int64_t Counters::frees() const {
  return wrapping_add(rows_[kSmall].freed[kCount], rows_[kLarge].freed[kCount]);
}

// Heads stay, since each round ends where it began. The sums of frees rise by each round's bytes.
void Counters::add_rounds(bool is_small, const Change& change, int64_t rounds) {
  Row& kind = rows_[kind_of(is_small)];
  const auto add = [&](Counter counter, int64_t by) {
    add_to_freed(kind, counter, wrapping_multiply(rounds, std::abs(by)));
  };
  add(kCount, 1);
  add(kBytes, change.bytes);
  add(kRequested, change.requested);
  add(kSplit, change.split);
  add(kSplitBytes, change.split_bytes());
  add(kOversize, change.oversize);
}

}  // namespace cachalot
