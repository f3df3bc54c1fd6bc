// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/pool_checkpoints.h"

#include <cinttypes>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace cachalot {
namespace {

// Whether the steps of a restore find the block free once the used blocks have been freed. The free of a block that other
// streams use (kRecorded) would wait for them, and one that other processes use (kShared) is not freed.
bool becomes_free(const Block* block) {
  return !block->is(Block::kWaiting | Block::kUnmapped | Block::kRecorded | Block::kShared);
}

}  // namespace

PrivatePool& PoolCheckpoints::existing(PoolId id) const {
  PrivatePool* const pool = device_.pools.find(id);
  if (pool == nullptr) throw_invalid_argument("Could not find pool of id");
  require_awake(*pool);
  return *pool;
}

// ---- Taking one

// A segment whose first block has no pages is left out, as in the reference, which finds segments by their first block.
Checkpoint PoolCheckpoints::take(PoolId id) {
  const ContextId context = device_.recorder.capture_context(ContextLevel::kAll);
  const DeviceLock lock(device_.shards);
  const PrivatePool& pool = existing(id);
  device_.pending.flush_deferred_frees(context);
  Checkpoint checkpoint{id, {}};
  for (const auto& [address, segment] : device_.heap.segments()) {
    if (segment->pool->owner != &pool || segment->first()->is(Block::kUnmapped)) continue;
    Recorded& blocks = checkpoint.segments.emplace_back();
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kWaiting))
        throw_invalid_state("Events should have synchronized when checkpointing block");
      blocks.push_back(
          {b->address, b->size, segment->stream, b->is(Block::kUsed), !b->is(Block::kUnmapped)});
    }
  }
  return checkpoint;
}

// ---- Applying one

// A policy moves pages, and a red zone is a part of its block that a checkpoint does not know.
void PoolCheckpoints::require_plain_hand_outs() const {
  if (device_.policy) throw_not_supported("checkpoints are not restored under the serving policy");
  if (device_.watch && device_.watch->with_red_zone(0) != 0)
    throw_not_supported("checkpoints are not restored while blocks have red zones");
}

// The reference looks for each segment when its turn comes, after the frees and after the segments before. So it has
// changed something when it throws, unless nothing was in use and the first segment is the one that is missing.
void PoolCheckpoints::require_restorable(const PrivatePool& pool, const Checkpoint& checkpoint,
                                         bool is_used) const {
  bool has_reference_changed = is_used;
  std::set<const Segment*> seen;
  try {
    for (const Recorded& blocks : checkpoint.segments) {
      const Segment& segment = segment_of(pool, blocks);
      has_reference_changed = true;
      if (!seen.insert(&segment).second)
        throw_invalid_argument(
            format("the checkpoint has the segment at 0x%" PRIx64 " twice", segment.address));
      require_room(segment, blocks);
    }
  } catch (const Error&) {
    if (has_reference_changed)
      device_.shared.log.differ("U25", "left a pool as it was that cannot be put back as a whole");
    throw;
  }
}

// In three parts: what can be refused, what can fail for want of memory, and what cannot fail.
CheckpointChanges PoolCheckpoints::apply(const Checkpoint& checkpoint) {
  const ContextId context_of_frees = device_.recorder.capture_context(ContextLevel::kAll);
  const ContextId context = device_.recorder.capture_context(ContextLevel::kState);
  const DeviceLock lock(device_.shards);
  require_plain_hand_outs();
  const PrivatePool* const pool = device_.pools.find(checkpoint.pool);
  if (pool == nullptr || pool->use_count <= 0)
    throw_invalid_state("Not expected to checkpoint freeable graph");
  require_awake(*pool);
  const std::vector<Block*> used = device_.heap.used_blocks(*pool);
  require_restorable(*pool, checkpoint, !used.empty());

  reserve_for(checkpoint);
  CheckpointChanges changes;
  std::vector<Block*> restored;
  size_t blocks_in_all = 0;
  for (const Recorded& blocks : checkpoint.segments) blocks_in_all += blocks.size();
  changes.freed.reserve(used.size());
  changes.created.reserve(blocks_in_all);
  restored.reserve(blocks_in_all);
  const LabelPin label = device_.owners.pin_label();

  for (Block* const block : used) {
    changes.freed.push_back(block->address);
    cache_.free(block, device_.assumed_caller(block), context_of_frees);
  }
  for (const Recorded& blocks : checkpoint.segments) {
    AllocParams params = params_for(blocks, context);
    params.owner.label = label.slot();
    if (has(kTenants)) params.owner.tenant = device_.owners.tenant_of_thread();
    restore(blocks, params, &restored, &changes, context_of_frees);
  }
  return changes;
}

// The end is recorded all the same, so that a checkpoint says how large its segments were.
size_t PoolCheckpoints::restored_count(const Recorded& blocks) {
  const bool has_tail = !blocks.empty() && !blocks.back().is_mapped;
  return blocks.size() - (has_tail ? 1 : 0);
}

// A segment that the reference would not find: its first block is not free once all used ones have been freed. The text
// is the reference's, with the blank that it begins with.
const Segment& PoolCheckpoints::segment_of(const PrivatePool& pool, const Recorded& blocks) const {
  if (restored_count(blocks) == 0)
    throw_invalid_argument("a segment of the checkpoint has no block");
  const auto& segments = device_.heap.segments();
  const auto found = segments.find(blocks.front().address);
  if (found == segments.end() || found->second->pool->owner != &pool ||
      !becomes_free(found->second->first()))
    throw_invalid_state(format(" could not find 0x%" PRIx64, blocks.front().address));
  return *found->second;
}

// Free blocks side by side are one block, so the room of a restore is what reaches from the segment's begin to the first
// block that does not become free. An expandable segment may have grown since, and then has room behind its blocks.
void PoolCheckpoints::require_room(const Segment& segment, const Recorded& blocks) {
  const size_t count = restored_count(blocks);
  Address end = segment.address;
  for (size_t i = 0; i < count; i++) {
    const CheckpointBlock& block = blocks[i];
    if (block.address != end || block.size == 0 || block.size % kMinBlockSize != 0 ||
        block.size > segment.address + segment.size - end || block.stream != segment.stream)
      throw_invalid_argument(
          format("the checkpoint has no block of this segment at 0x%" PRIx64, block.address));
    end += block.size;
  }
  Address room = segment.address;
  const Block* behind = segment.first();
  for (; behind != &segment.ends && becomes_free(behind); behind = behind->next)
    room = behind->address + behind->size;
  if (room < end)
    throw_invalid_state(format("the pool has %" PRIu64 " bytes at 0x%" PRIx64
                               " that can be restored, and the checkpoint needs %" PRIu64,
                               room - segment.address, segment.address, end - segment.address));
  // The reference takes the block behind the restored ones, whatever it is, for what the segment has grown by, which only
  // the end of its pages may follow.
  const auto ends_pages = [&](const Block* b) {
    return b == &segment.ends || b->is(Block::kUnmapped);
  };
  if (room == end && !ends_pages(behind)) behind = behind->next;
  if (count < blocks.size() && !ends_pages(behind))
    throw_invalid_state("Invalid expandable segment structure during checkpoint restore");
}

// Each split takes an object from the supply of the segment's shard, which is asked once for all of them: what it has is
// a number, not a promise to each caller.
void PoolCheckpoints::reserve_for(const Checkpoint& checkpoint) {
  std::map<BlockSupply*, uint32_t> objects;
  for (const Recorded& blocks : checkpoint.segments) {
    Shard& shard = *device_.heap.segments().find(blocks.front().address)->second->list->shard;
    objects[&shard.supply] += static_cast<uint32_t>(blocks.size());
    // The table has no place for addresses without pages.
    for (size_t i = 0; i < restored_count(blocks); i++)
      device_.shared.addresses.make_room(blocks[i].address);
  }
  for (const auto& [supply, count] : objects) device_.heap.reserve(*supply, count);
}

// What the hand-out of a block needs to know of its request. Its size comes block by block.
AllocParams PoolCheckpoints::params_for(const Recorded& blocks, ContextId context) const {
  const Segment& segment = *device_.heap.segments().find(blocks.front().address)->second;
  AllocParams params{};
  params.stream = params.current_stream = segment.stream;
  params.entry = segment.list->entry;
  params.pool = segment.pool;
  params.expandable = segment.is_expandable();
  params.context = context;
  return params;
}

// All blocks are handed out in a row, and then those that were free are freed: peaks see the whole segment.
void PoolCheckpoints::restore(const Recorded& blocks, const AllocParams& params,
                              std::vector<Block*>* restored, CheckpointChanges* changes,
                              ContextId context_of_frees) {
  Block* rest = device_.heap.segments().find(blocks.front().address)->second->first();
  restored->clear();
  const size_t count = restored_count(blocks);
  for (size_t i = 0; i < count; i++) {
    AllocParams of_block = params;
    of_block.requested = of_block.size = blocks[i].size;
    SegmentHeap::remove_free(rest);
    const bool is_split = rest->size > blocks[i].size;
    Block* const block = cache_.alloc_found_block(rest, of_block, is_split);
    rest = is_split ? rest : block->next;
    restored->push_back(block);
  }
  for (size_t i = 0; i < count; i++) {
    if (blocks[i].is_used) {
      changes->created.push_back((*restored)[i]->address);
    } else {
      cache_.free((*restored)[i], params.stream, context_of_frees);
    }
  }
}

}  // namespace cachalot
