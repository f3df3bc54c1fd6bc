// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/active_counts.h"

#include <algorithm>

#include "base/sums.h"

namespace cachalot {

template <class Function>
void ActiveCounts::for_each(Function function) {
  for (auto& units : rows_) {
    for (Row& row : units) function(row);
  }
}

// Only `allocated` is set: no block waits yet, and peaks of former waits stay until they are reset.
void ActiveCounts::begin(const Counters::Rows& allocated) {
  for (size_t name = 0; name < Counters::kRowCount; name++) {
    rows_[name][kBlocks].allocated = allocated[name].current(Counters::kCount);
    rows_[name][kBytes].allocated = allocated[name].current(Counters::kBytes);
  }
}

// Both at once, so that the peak is that of the sum and not of a state between two counts.
void ActiveCounts::Row::move(int64_t allocated_by, int64_t waiting_by) {
  allocated += allocated_by;
  waiting += waiting_by;
  peak = std::max(peak, allocated + waiting);
}

// A move counts for its size class and for all.
void ActiveCounts::move(bool is_small, const Counters::Move& move) {
  for (const Counters::RowName name : {Counters::kind_of(is_small), Counters::kAll}) {
    rows_[name][kBlocks].move(move.by[Counters::kCount], move.waiting);
    rows_[name][kBytes].move(move.by[Counters::kBytes], move.waiting_bytes);
  }
}

// Without a block that waits the peak of the allocated blocks is the one that is shown, and a peak
// of 0 never exceeds it.
void ActiveCounts::reset_peaks() {
  const bool apart = are_apart();
  for_each([&](Row& row) { row.peak = apart ? row.allocated + row.waiting : 0; });
}

void ActiveCounts::reset_accumulated() {
  // Blocks that wait at the reset were not freed before it as far as the sums say, so their frees
  // count afterwards.
  for_each([](Row& row) { row.waiting_at_reset = row.waiting; });
}

void ActiveCounts::Row::write(const Stat& allocated_blocks, Stat* active) const {
  active->current = allocated_blocks.current + waiting;
  // While no block waited, `peak` was not kept up, but the peak of allocated blocks was.
  active->peak = std::max(allocated_blocks.peak, peak);
  // A block becomes active when it is allocated and stops being so when its free completes, which
  // is later than the free that the other statistic counts.
  active->allocated = allocated_blocks.allocated;
  active->freed = add_to_sum(allocated_blocks.freed, waiting_at_reset - waiting);
}

void ActiveCounts::write(Stats* stats) const {
  const auto write_array = [&](size_t unit, const StatArray& allocated, StatArray* active) {
    row(Counters::kAll, unit).write(allocated.all, &active->all);
    row(Counters::kSmall, unit).write(allocated.small_pool, &active->small_pool);
    row(Counters::kLarge, unit).write(allocated.large_pool, &active->large_pool);
  };
  write_array(kBlocks, stats->allocation, &stats->active);
  write_array(kBytes, stats->allocated_bytes, &stats->active_bytes);
}

}  // namespace cachalot
