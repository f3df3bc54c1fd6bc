// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/block_changes.h"

namespace cachalot {

bool count_hand_out_of_other(Counters& counters, Counters::Row& kind, const Block* block,
                             uint64_t size, uint64_t requested) {
  const auto bytes = static_cast<int64_t>(size);
  const auto requested_bytes = static_cast<int64_t>(requested);
  if (block->is(Block::kExpandable))
    return counters.hand_out_expandable(kind, bytes, requested_bytes);
  return counters.hand_out_whole(kind, bytes, requested_bytes, static_cast<int64_t>(block->size));
}

void count_free_of_other(Counters& counters, Counters::Row& kind, const Block* block) {
  const auto bytes = static_cast<int64_t>(block->size);
  const auto requested_bytes = static_cast<int64_t>(block->requested);
  if (block->is(Block::kExpandable)) return counters.free_expandable(kind, bytes, requested_bytes);
  counters.free_whole(kind, bytes, requested_bytes, free_neighbours(block).count(),
                      static_cast<int64_t>(block->segment()->size));
}

}  // namespace cachalot
