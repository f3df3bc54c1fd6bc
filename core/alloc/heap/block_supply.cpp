// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/block_supply.h"

#include <algorithm>

namespace cachalot {
namespace {

// How many objects a shard gets at a time.
constexpr uint32_t kFewBlocks = 64;
constexpr uint32_t kManyBlocks = 1024;

}  // namespace

// Counts at most `count` objects, so that the usual call is short.
void BlockSupply::reserve(uint32_t count, BlockArena& arena) {
  uint32_t found = 0;
  Block* last = nullptr;
  for (Block* b = first_; b && found < count; b = b->next, found++) last = b;
  if (found < count) add(last, arena);
}

// last: the new objects follow it; null: the supply is empty. A shard that has used its first objects
// gets many at a time: objects of different shards that lie side by side cost their threads misses of
// the caches.
void BlockSupply::add(Block* last, BlockArena& arena) {
  const uint32_t count =
      asked_ == 0 ? BlockArena::kRun : std::clamp(asked_, kFewBlocks, kManyBlocks);
  Block* const added = arena.add(owner_, count);
  asked_ += count;
  (last ? last->next : first_) = added;
}

}  // namespace cachalot
