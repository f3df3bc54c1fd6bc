// SPDX-License-Identifier: MIT OR Apache-2.0
// The decisions and changes of a hand-out and of a free, as functions of the block. Hits and general
// paths share them, so each decision is written once.
#pragma once

#include <cstdint>

#include "alloc/config/constants.h"
#include "alloc/heap/block.h"
#include "alloc/stats/counters.h"

namespace cachalot {

// Which of a block's neighbours it takes in when it becomes free.
// Good for as long as the shard is locked.
struct Neighbours {
  bool before;
  bool after;

  int64_t count() const { return int64_t{before} + int64_t{after}; }
};

// [core 7.2, 7.3] What is left of a block is split off from this size on.
constexpr uint64_t least_remainder(bool is_small, bool is_expandable) {
  return is_small || is_expandable ? kMinBlockSize : kSmallSize + kMinBlockSize;
}

// Whether a block can take a neighbour in: the neighbour is free, and mapped as the block is.
inline bool can_absorb(const Block* block, const Block* neighbour) {
  constexpr uint64_t kState = Block::kUsed | Block::kWaiting | Block::kUnmapped;
  return (neighbour->home & kState) == (block->home & Block::kUnmapped);
}

inline Neighbours free_neighbours(const Block* block) {
  return {can_absorb(block, block->prev), can_absorb(block, block->next)};
}

// The neighbours of what a block merges to.
inline const Block* before_merged(const Block* block, Neighbours free) {
  return free.before ? block->prev->prev : block->prev;
}
inline const Block* after_merged(const Block* block, Neighbours free) {
  return free.after ? block->next->next : block->next;
}

// The change of the counters by a hand-out. Only plain segments count split free blocks [exp 5.1].
// size: what it takes of the block.
inline Counters::Change change_of_hand_out(const Block* block, uint64_t size, uint64_t requested,
                                           bool splits) {
  const auto bytes = static_cast<int64_t>(size);
  const auto requested_bytes = static_cast<int64_t>(requested);
  if (block->is(Block::kExpandable)) return {bytes, requested_bytes, 0, bytes};
  if (block->is_split()) [[likely]]
    return {bytes, requested_bytes, int64_t{splits} - 1, 0};
  return {bytes, requested_bytes, int64_t{splits}, static_cast<int64_t>(block->size)};
}

// The change of the counters by a free, when the block merges with these neighbours.
inline Counters::Change change_of_free(const Block* block, Neighbours free) {
  const auto bytes = static_cast<int64_t>(block->size);
  const auto requested_bytes = static_cast<int64_t>(block->requested);
  if (block->is(Block::kExpandable)) return {bytes, requested_bytes, 0, bytes};
  if (before_merged(block, free) != after_merged(block, free)) [[likely]]
    return {bytes, requested_bytes, 1 - free.count(), 0};
  return {bytes, requested_bytes, -free.count(), static_cast<int64_t>(block->segment()->size)};
}

// Counts a hand-out or a free of a block that is alone in its segment, or of an expandable segment.
// False: refused by the counters.
bool count_hand_out_of_other(Counters& counters, Counters::Row& kind, const Block* block,
                             uint64_t size, uint64_t requested);
void count_free_of_other(Counters& counters, Counters::Row& kind, const Block* block);

// Counts a hand-out, and a free, of any block. False: refused by the counters. kind: a row of theirs.
[[gnu::always_inline]] inline bool count_hand_out(Counters& counters, Counters::Row& kind,
                                                  const Block* block, uint64_t size,
                                                  uint64_t requested, bool splits) {
  if (!block->is_split() || block->is(Block::kExpandable)) [[unlikely]]
    return count_hand_out_of_other(counters, kind, block, size, requested);
  return counters.hand_out_piece(kind, static_cast<int64_t>(size), static_cast<int64_t>(requested),
                                 splits);
}

[[gnu::always_inline]] inline bool count_free(Counters& counters, Counters::Row& kind,
                                              const Block* block, Neighbours free) {
  const bool is_whole = before_merged(block, free) == after_merged(block, free);
  if (is_whole || block->is(Block::kExpandable)) [[unlikely]] {
    count_free_of_other(counters, kind, block);
    return true;
  }
  return counters.free_piece(kind, static_cast<int64_t>(block->size),
                             static_cast<int64_t>(block->requested), free.count());
}

}  // namespace cachalot
