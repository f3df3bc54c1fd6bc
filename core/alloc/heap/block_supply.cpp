// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/block_supply.h"

#include <algorithm>

namespace cachalot {
namespace {

// How many objects a shard gets at a time.
constexpr uint32_t kFewBlocks = 64;
constexpr uint32_t kManyBlocks = 1024;

}  // namespace

// Counts at most `count` objects, so that the usual call is short. The arena may give fewer than it is asked for.
void BlockSupply::reserve(uint32_t count, BlockArena& arena) {
  Block** end = &first_;
  for (uint32_t found = 0; found < count; found++) {
    if (*end == nullptr) *end = more(arena);
    end = &(*end)->next;
  }
}

// A shard that has used its first objects gets many at a time: objects of different shards that lie side by side cost
// their threads misses of the caches.
Block* BlockSupply::more(BlockArena& arena) {
  const uint32_t count =
      asked_ == 0 ? BlockArena::kRun : std::clamp(asked_, kFewBlocks, kManyBlocks);
  Block* const added = arena.add(owner_, count);
  asked_ += count;
  return added;
}

}  // namespace cachalot
