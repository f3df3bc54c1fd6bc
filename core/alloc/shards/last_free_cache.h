// SPDX-License-Identifier: MIT OR Apache-2.0
// The free of a shard that is not carried out yet.
//
// Note [Last free]
// Rationale: programs free a block and ask for the same size again and again. Then the free merges
// the block with its neighbour and puts it into its free set, and the request finds it there, takes it
// out and splits it: the state before is back.
// Approach: a free of the block that was handed out last, with nothing else done at the shard
// since, only notes that (`kept`). If the next request is for the same pool, stream and number of
// bytes it gets the block again, and only a count of such rounds goes up (`rounds`). Anything else,
// a look at the statistics too, flushes it first: the rounds are accounted for, and the free is
// carried out (flush() in last_free.h). A round moves no peak.
//   A shard that uses the shared account keeps none: another shard would have to flush it first. With
// labels, tenants and history (Note [Attributed hits]) the device's only shard may keep one; they are
// told of each round, so only segments and counters lag.
// Invariants: a kept block is `handed_out`, neither used nor in a free set; once flushed, and while
// another flag of the slow path is set, there is neither a kept block nor a round.
#pragma once

#include <cstdint>

#include "alloc/heap/block.h"
#include "base/assert.h"

namespace cachalot {

// The state of one shard, guarded by its lock.
class LastFreeCache {
 public:
  Block* handed_out = nullptr;  // the last one, if nothing has happened since

  bool is_empty() const { return state_ == 0; }
  bool is_kept() const { return (state_ & kKept) != 0; }
  int64_t rounds() const { return static_cast<int64_t>(state_ / kRound); }
  // pre: it is not kept.
  void keep() {
    CACHALOT_ASSERT(1, !is_kept() && handed_out != nullptr);
    state_ += kKept;
  }
  // pre: it is kept.
  void hand_out_again() {
    CACHALOT_ASSERT(1, is_kept());
    state_ += kRound - kKept;
  }

 private:
  static constexpr uint64_t kKept = 1;
  static constexpr uint64_t kRound = 2;

  uint64_t state_ = 0;  // the rounds, and whether it is kept: one test tells that there is neither
};

}  // namespace cachalot
