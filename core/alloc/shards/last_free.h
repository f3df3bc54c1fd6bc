// SPDX-License-Identifier: MIT OR Apache-2.0
// The free of a usual block, and the free that a shard has put off: see Note [Last free].
#pragma once

#include <utility>

#include "alloc/heap/segment_heap.h"
#include "alloc/shards/hit_rules.h"
#include "alloc/shards/shard.h"

namespace cachalot {

// See Note [Oversize hits] in hot_path.h.
[[gnu::noinline]] inline bool count_free_of_oversize(Counters& counters, Counters::Row& kind,
                                                     const Block* block) {
  Counters::Change change = change_of_free(block, free_neighbours(block));
  change.oversize = 1;
  return counters.move(kind, Counters::freeing(change));
}

// Counts a free.
template <DecidedBy decided_by>
[[gnu::always_inline]] inline bool count_free(const HitRules& rules, Counters& counters,
                                              Counters::Row& kind, const Block* block,
                                              Neighbours free) {
  if (decided_by == DecidedBy::kServing) {
    counters.free_expandable(kind, static_cast<int64_t>(block->size),
                             static_cast<int64_t>(block->requested));
    return true;
  }
  if (rules.is_oversize(block->size)) [[unlikely]]
    return count_free_of_oversize(counters, kind, block);
  return count_free(counters, kind, block, free);
}

// Carries a free out. count(list, change of counters and row): whether the counters agree. False: they
// refuse, and nothing has changed. pre: the shard; a mapped block that the caller freed.
template <DecidedBy decided_by = DecidedBy::kReference, class Count>
[[gnu::always_inline]] inline bool put_back(SegmentHeap& heap, const HitRules& rules, Shard& shard,
                                            Block* block, Count count) {
  StreamFreeList& list = list_of(block);
  Block* const previous = block->prev;
  Block* const next = block->next;
  const Neighbours free{previous->is_mapped_and_free(), next->is_mapped_and_free()};
  const bool is_counted = count(list, [&](Counters& counters, Counters::Row& kind) {
    return count_free<decided_by>(rules, counters, kind, block, free);
  });
  if (!is_counted) [[unlikely]]
    return false;
  block->clear(Block::kUsed);
  if (free.before) {
    list.free.remove(previous);
    heap.absorb_previous(shard.supply, block);
  }
  if (free.after) {
    list.free.remove(next);
    heap.absorb_next(shard.supply, block);
  }
  list.free.insert(block);
  return true;
}

// What each hand-out moved follows from the neighbours, which have not changed since.
inline void count_rounds(const HitRules& rules, Shard& shard, Block* block, int64_t rounds) {
  const Neighbours free = free_neighbours(block);
  Counters::Change change = change_of_free(block, free);
  change.oversize = rules.is_oversize(block->size) ? 1 : 0;
  // The object of the freed block became the remainder each time, and shows what was asked of it.
  if (free.after) block->next->requested = rules.clock ? rules.clock : block->requested;
  shard.account.counters.add_rounds(list_of(block).is_small, change, rounds);
}

// Before anything that walks, releases, counts or changes what a hit does not. pre: the shard.
[[gnu::noinline]] inline void flush(SegmentHeap& heap, const HitRules& rules, Shard& shard) {
  const LastFreeCache last = std::exchange(shard.last, {});
  if (last.rounds() != 0) count_rounds(rules, shard, last.handed_out, last.rounds());
  if (!last.is_kept()) return;
  // Never refused: the shard has counted the state that this brings back, and kept its limits.
  put_back(heap, rules, shard, last.handed_out, [&](StreamFreeList& list, auto count) {
    return count(shard.account.counters, *list.counters);
  });
  if (rules.clock != 0) last.handed_out->requested = rules.clock;
}

}  // namespace cachalot
