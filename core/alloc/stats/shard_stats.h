// SPDX-License-Identifier: MIT OR Apache-2.0
// The statistics that shards count, made of the sums of all accounts. DeviceStats has the others.
#pragma once

#include "alloc/stats/active_counts.h"
#include "alloc/stats/counters.h"
#include "alloc/stats/stats.h"

namespace cachalot {

// Owns what the accounts cannot hold: the frees that wait, and what there was when the sums were
// reset.
// pre of the functions that are not const: the whole device.
class ShardStats {
 public:
  // Of all accounts, at one moment.
  // Heads, limits and frees add up by row and counter, so the sum of accounts is read as one
  // account is.
  struct Sums {
    void add(const Counters::Rows& other);
    Counters::Rows rows;
  };

  // Whether a freed block is still active. Before the first one, begin_waiting().
  bool has_waiting() const { return active_counts_.are_apart(); }
  void begin_waiting(const Sums& sums) { active_counts_.begin(sums.rows); }
  // Each move that an account has made. A device with a block that waits is used as a whole.
  void note_move(bool is_small, const Counters::Move& move) {
    if (has_waiting() || move.waiting != 0) active_counts_.move(is_small, move);
  }

  void write(const Sums& sums, Stats* stats) const;
  void reset_peaks() { active_counts_.reset_peaks(); }
  // pre: the accounts begin their sums of frees anew.
  void reset_accumulated(const Sums& sums);

 private:
  Stat stat(const Sums& sums, size_t row, size_t counter) const;

  ActiveCounts active_counts_;
  Counters::Amounts base_{};  // current at the last reset of the accumulated sums
};

}  // namespace cachalot
