// SPDX-License-Identifier: MIT OR Apache-2.0
// Preserves blocks for a copy that is being made before they change: see Note [Copying blocks].
#pragma once

#include "alloc/heap/block_changes.h"
#include "alloc/shards/shard.h"

namespace cachalot {

// Before a block changes, and for one that is new. pre: the shard, which preserves for a copy.
void preserve(Shard& shard, Block* block);
// Before a free, in which the block merges with these neighbours.
void preserve_before_free(Shard& shard, Block* block, Neighbours free);

}  // namespace cachalot
