// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks that are active: those that are allocated, and those whose free waits for other streams.
//
// Note [Active blocks]
// Rationale: while no free waits, the active blocks are the allocated ones, so a hit need not count
// them a second time.
// Approach: this class counts the blocks that wait. The first one makes it take over the number of
// allocated blocks, which it then keeps up with each move, so that it sees each peak of the sum.
// Without a block that waits the peak of active blocks rises with that of allocated blocks, which
// is never higher: statistics show the higher of the two.
// Invariants: a device with a block that waits is used as a whole, so each move comes here.
#pragma once

#include <array>
#include <cstdint>

#include "alloc/stats/counters.h"
#include "alloc/stats/stats.h"

namespace cachalot {

// Owns the counts of frees that wait, by size class and in all, in blocks and bytes. A shard's
// accounts do not know of it, so a hit touches none of it.
class ActiveCounts {
 public:
  // Whether a block waits.
  bool are_apart() const { return row(Counters::kAll, kBlocks).waiting != 0; }
  // pre: no block waits, but the next move makes one wait. The whole device.
  void begin(const Counters::Rows& allocated);
  // pre (here and below): the whole device.
  void move(bool is_small, const Counters::Move& move);
  void reset_peaks();
  void reset_accumulated();
  // pre: the statistics of allocated blocks are written.
  void write(Stats* stats) const;

 private:
  enum Unit { kBlocks, kBytes, kUnits };
  // One statistic of one size class. `allocated` and `peak` mean something only while a block
  // waits.
  struct Row {
    int64_t waiting = 0;
    int64_t waiting_at_reset = 0;  // of the sums
    int64_t allocated = 0;         // kept up while a block waits
    int64_t peak = 0;              // of the sum, while a block waited

    void move(int64_t allocated_by, int64_t waiting_by);
    void write(const Stat& allocated_blocks, Stat* active) const;
  };

  const Row& row(size_t name, size_t unit) const { return rows_[name][unit]; }
  template <class Function>
  void for_each(Function function);

  std::array<std::array<Row, kUnits>, Counters::kRowCount> rows_;
};

}  // namespace cachalot
