// SPDX-License-Identifier: MIT OR Apache-2.0
// Private pools [core 17]: memory of graphs and users, set apart from the default pools.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alloc/heap/block_pool.h"
#include "alloc/pools/pool_route.h"
#include "alloc/pools/sleeping_pool.h"
#include "alloc/pools/whole_blocks.h"

namespace cachalot {

// Owns the blocks' sets of one private pool and shares its source with the callers. Held by
// PrivatePools until it has neither memory nor requests. Small and large blocks are apart, as in
// the default pools.
struct PrivatePool {
  explicit PrivatePool(PoolId pool_id) : id(pool_id), small(true, this), large(false, this) {}

  PoolId id;
  int use_count = 1;           // 0: its memory may be given back, and it cannot be joined
  int driver_allocations = 0;  // as the reference counts them (U4)
  bool is_pinned = false;      // its memory stays, also once it has been released
  int requests_under_way = 0;  // not 0: the pool stays, although others may end its last use
  BlockPool small;
  BlockPool large;
  std::shared_ptr<PoolSource> source;  // null: the driver
  std::optional<WholeBlocks> whole;    // each block is a segment
  // Null: it is awake. See Note [Pools that sleep].
  std::unique_ptr<SleepingPool> sleep;
  std::map<std::string, SleepContents> contents_of_labels;  // when it falls asleep

  void set_no_split(bool no_split) { small.no_split = large.no_split = no_split; }
  BlockPool& of_kind(bool is_small) { return is_small ? small : large; }
  // A pool that is in use keeps its memory, since graphs rely on its addresses [core 15.3]. Whole blocks are
  // a cache of the driver's allocations, and go. What sleeps or wakes has no cache.
  bool keeps_memory() const { return is_pinned || sleep || (use_count != 0 && !whole); }
  bool is_empty() const { return small.lists.empty() && large.lists.empty(); }
  bool has_segments() const {
    const auto has_some = [](const auto& item) { return item.second.segments != 0; };
    return std::any_of(small.lists.begin(), small.lists.end(), has_some) ||
           std::any_of(large.lists.begin(), large.lists.end(), has_some);
  }
};

inline PoolId pool_id_of(const BlockPool& pool) { return pool.owner ? pool.owner->id : PoolId{}; }

// Whether its segments come from a source of its own instead of the driver.
inline bool has_source(const BlockPool& pool) { return pool.owner && pool.owner->source; }

inline bool has_whole_blocks(const BlockPool& pool) { return pool.owner && pool.owner->whole; }

// The account of a block with Block::kWhole.
inline WholeBlocks& whole_blocks_of(const Block* block) {
  return *block->segment()->pool->owner->whole;
}

std::string shown_pool_name(PoolId id);  // "pool (0, 7)"

// Throws for a pool that sleeps, is about to, or wakes.
void require_awake(const PrivatePool& pool);

// Requests that `takes` accepts go to the pool; the newest entry that does wins [core 17.3].
struct PoolRoute {
  PoolId id;
  PoolFilter takes;
};

}  // namespace cachalot
