// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/shards/preserve.h"

#include "alloc/heap/segment_copy.h"

namespace cachalot {

// Once a copy for each block: the row is that of the moment, not of a later change.
void preserve(Shard& shard, Block* block) {
  if (block->detail().preserved_for == shard.preserves_for) return;
  block->detail().preserved_for = shard.preserves_for;
  shard.changed_for = shard.preserves_for;
  if (SegmentCopy* copy = block->segment()->copy) copy->preserve(block);
}

// The neighbours too, since a merge changes all three. The copy is looked up before the objects of
// the neighbours go.
void preserve_before_free(Shard& shard, Block* block, Neighbours free) {
  SegmentCopy* const copy = block->segment()->copy;
  preserve(shard, block);
  if (free.before) preserve(shard, block->prev);
  if (free.after) preserve(shard, block->next);
  if (copy && free.before) copy->absorbed(block->prev, block);
  if (copy && free.after) copy->absorbed(block->next, block);
}

}  // namespace cachalot
