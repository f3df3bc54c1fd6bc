// SPDX-License-Identifier: MIT OR Apache-2.0
// Giving memory back that has been idle for a while, so that several processes can share
// a device.
//
// Note [Idle memory]
// Rationale: to know since when memory is unused, a time would have to be taken at each free. A hit
// has no time for that.
// Approach: the first trim that sees a free block gives it the flag kIdle and the time. A hand-out
// leaves the flag as it is. The free of a block that carries it is not a usual one, since its flags
// are not those of a used block alone, and the general path takes the flag away: one
// slower free for each block that was idle. So a free block with the flag has been free since the
// time that it carries.
// Why that holds:
//   - A block becomes free through the general path (without the flag from then on, whether it has to
//     wait for events or not), through a usual free (which needs that there is no flag; a kept free
//     is one, so a block with the flag is never kept), by mapping or unmapping (which set all
//     flags), or as the remainder of a split, which was not used.
//   - A split copies the flag to the front, which is handed out: its free takes the flag away. The
//     remainder keeps its object, and with it flag and time.
//   - Of two neighbours that merge the one that is just becoming free takes the other one in, and
//     it has no flag. So the block that was taken in loses its time: a segment that was used in
//     part counts as used.
// Invariants: idle_since is set where a free block carries kIdle.
// Limitations: time counts from the first trim on that saw the memory free, not from its free.
#pragma once

#include <cstdint>

namespace cachalot {

struct TrimGoal {
  uint64_t keep_bytes = 0;   // nothing is given back below that many reserved bytes
  uint64_t min_idle_ns = 0;  // 0: whatever is free
  uint64_t now_ns = 0;       // of a clock that never goes back
};

}  // namespace cachalot
