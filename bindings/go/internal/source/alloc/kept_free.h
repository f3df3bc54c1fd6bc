// SPDX-License-Identifier: MIT OR Apache-2.0
// The free of a shard that is not carried out yet.
//
// Note [Kept free]
// Rationale: programs free a block and ask for the same size again and again. Then the free merges
// the block with its neighbour and files it, and the request finds, unfiles and splits it: the
// state before is restored.
// Approach: a free of the block that was handed out last, with nothing else done at the shard
// since, only notes that (`kept`). If the next request is for the same pool, stream and number of
// bytes it gets the block again, and only a count of such rounds goes up (`rounds`). Anything else,
// a look at the statistics too, settles first: the rounds are accounted for, and the free is
// carried out (DeviceAllocator::settle). A round moves no peak.
//   A shard that uses the shared account keeps none: another shard would have to settle it first.
// Invariants: a kept block is `handed_out`, neither used nor in a free set; once settled, and while
// a duty is set, there is neither a kept block nor a round.
#pragma once

#include <cstdint>

#include "alloc/block.h"

namespace cachalot {

struct KeptFree {
  Block* handed_out = nullptr;  // the last one, if nothing has happened since
  bool kept = false;
  int64_t rounds = 0;

  bool is_settled() const { return !kept && rounds == 0; }
};

}  // namespace cachalot
