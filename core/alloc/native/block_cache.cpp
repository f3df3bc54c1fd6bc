// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/block_cache.h"

#include <mutex>

#include "alloc/shards/preserve.h"

namespace cachalot {

namespace {

// [core 6.4 b]
Block* skip_expandable(const StreamFreeList& list, Block* block) {
  while (block && block->is(Block::kExpandable)) block = list.free.next(block);
  return block;
}

}  // namespace

// ---- Free lists of streams

// The list comes before its segment, and goes with its last one (drop_empty_lists).
StreamFreeList& BlockCache::list_for(BlockPool& pool, Stream stream) {
  if (StreamFreeList* found = pool.find(stream)) return *found;
  StreamEntry& entry = device_.shards.entry_for(stream);
  Counters& counters = entry.shard->account.counters;
  StreamFreeList& list =
      pool.lists
          .try_emplace(stream, &pool, &entry, &counters.row(Counters::kind_of(pool.is_small)),
                       &entry.shard->supply, pool.is_small, rules().ties_by_segment_number)
          .first->second;
  entry.lists++;
  if (!pool.owner) entry.default_lists[pool.is_small] = &list;
  return list;
}

// Takes each shard's lock, since a hit reads `default_lists` under that lock alone.
void BlockCache::drop_empty_lists(BlockPool& pool) {
  std::erase_if(pool.lists, [&](const auto& item) {
    const StreamFreeList& list = item.second;
    if (list.segments != 0) return false;
    const std::lock_guard guard(list.shard->lock);
    list.entry->lists--;
    if (!pool.owner) list.entry->default_lists[pool.is_small] = nullptr;
    device_.shards.note_vacancy(list.entry);
    return true;
  });
}

// ---- Requests

// [core 5.1, 17.3] The newest routing that takes the stream wins; without one the default pools
// serve.
BlockPool& BlockCache::pool_for(uint64_t size, Stream stream) const {
  const bool is_small = size <= kSmallSize;
  if (has(kRouting)) [[unlikely]] {
    if (const PoolId* route = device_.pools.route_of(stream)) {
      PrivatePool* pool = device_.pools.find(*route);
      if (!pool)
        throw_invalid_state("the pool that requests are routed to was released and is gone");
      return pool->of_kind(is_small);
    }
  }
  return device_.heap.default_pool(is_small);
}

// [core 4] The red zone is added before the size is rounded, so that it is never lost in the
// rounding.
AllocParams BlockCache::make_params(StreamEntry* entry, const Request& request,
                                    ContextId context) const {
  AllocParams params;
  params.requested = has(kWatched) ? device_.watch->with_red_zone(request.size) : request.size;
  params.size = device_.settings.round_size(params.requested);
  params.stream = request.stream;
  params.current_stream = request.current_stream;
  params.entry = entry;
  params.pool = &pool_for(params.size, request.stream);
  if (has_whole_blocks(*params.pool)) [[unlikely]] {
    // They have classes of their own.
    params.size = round_up(std::max<uint64_t>(params.requested, 1), kMinBlockSize);
    params.pool = &params.pool->owner->of_kind(params.size <= kSmallSize);
  }
  params.expandable = settings().expandable_segments && !has_source(*params.pool) &&
                      !has_whole_blocks(*params.pool);
  params.context = context;
  return params;
}

uint64_t BlockCache::segment_size_for(const AllocParams& params) const {
  return has_whole_blocks(*params.pool) ? WholeBlocks::class_of(params.size)
                                        : device_.settings.segment_size_for(params.size);
}

// ---- The search

// [core 6.4 a] The reach of a block is what it could grow to: its own bytes and those of the hole
// behind it.
Block* step_to_smaller_reach(const StreamFreeList& list, Block* block) {
  const auto reach = [](const Block* b) {
    return b->size + (b->next->is(Block::kUnmapped) ? b->next->size : 0);
  };
  while (block->is(Block::kExpandable)) {
    Block* next = list.free.next(block);
    if (!next || reach(next) >= reach(block)) break;
    block = next;
  }
  return block;
}

// Within a capture no stream can wait for another: a block is skipped that other streams used. Later ones
// are larger, so the first is as good as any.
Block* BlockCache::without_wait(const StreamFreeList& list, Block* block) const {
  if (!device_.captures.may_be_under_way()) return block;
  while (block && block->is(Block::kForeign)) block = list.free.next(block);
  return block;
}

Block* BlockCache::best_fit(const AllocParams& params) const {
  StreamFreeList* list = params.list();
  Block* block = list ? list->free.first_at_least(params.size) : nullptr;
  if (!block || !block->is(Block::kExpandable)) [[likely]]
    return block;
  if (has(kServing)) return without_wait(*list, block);
  return params.expandable ? step_to_smaller_reach(*list, block) : skip_expandable(*list, block);
}

// Ages count searches, not time [core 6.2].
Block* BlockCache::get_free_block(AllocParams& params) {
  if (has(kAging)) [[unlikely]]
    params.pool->search_count++;
  Block* block = best_fit(params);
  if (!block) return nullptr;
  if (is_oversize_mismatch(params, block)) [[unlikely]]
    return nullptr;
  // Before the block leaves its set: this is the last step that can fail.
  device_.shared.addresses.make_room(block->address);
  SegmentHeap::remove_free(block);
  return block;
}

// U22: pages are split whatever the limit [core 7.2], so later requests grow past a block of pages that the limit keeps back.
bool BlockCache::is_oversize_mismatch(const AllocParams& params, const Block* block) const {
  if (block->is(Block::kWhole)) [[unlikely]]
    return !WholeBlocks::fits(block->size, params.size);
  if (rules().mend_split_limit && block->is(Block::kExpandable)) return false;
  if (params.size < settings().max_split_size) return block->size >= settings().max_split_size;
  return block->size >= params.size + settings().max_non_split_rounding_size;
}

// Looks in the segment instead of the free set, which is sorted by size and not by address.
Block* BlockCache::free_block_around(const AllocParams& params, Address address) {
  const Segment* const segment = device_.heap.segment_in(address, 1);
  if (segment == nullptr || segment->pool != params.pool || segment->stream != params.stream)
    return nullptr;
  Block* const b = device_.heap.block_around(address);
  const bool fits =
      b->is_free() && !b->is(Block::kUnmapped) &&
      !(b->is(Block::kForeign) && device_.captures.may_be_under_way()) &&
      b->address + b->size - address >= params.size &&
      !(b->is(Block::kWhole) && (address != b->address || is_oversize_mismatch(params, b)));
  return fits ? b : nullptr;
}

// ---- The hand-out

// [core 7.1 to 7.3]
bool BlockCache::should_split(const AllocParams& params, const Block* block) const {
  const bool is_small = params.pool->is_small;
  const uint64_t remainder = block->size - params.size;
  if (params.pool->no_split || block->is(Block::kWhole) ||
      remainder < least_remainder(is_small, params.expandable))
    return false;
  return is_small || params.expandable || params.size < settings().max_split_size;
}

// Counts first: the counters may refuse, and then nothing has changed. Behind them no step can
// fail.
Block* BlockCache::alloc_found_block(Block* block, const AllocParams& params, bool split) {
  const uint64_t size = split ? params.size : block->size;
  Counters::Change change = change_of_hand_out(block, size, params.requested, split);
  change.oversize = device_.settings.oversize_of(size);
  Shard& shard = params.shard();
  if (!device_.shards.count(shard, params.pool->is_small, Counters::handing_out(change)))
    return nullptr;
  if (shard.preserves_for != 0) [[unlikely]]
    preserve(shard, block);
  // The remainder keeps the old object, with its marks (P5).
  if (split) {
    Block* remainder = block;
    block = SegmentHeap::split_front(shard.supply, block, size);
    if (shard.preserves_for != 0) [[unlikely]]
      block->detail().preserved_for = shard.preserves_for;
    device_.heap.insert_free(remainder);
  }
  block->set(Block::kUsed);
  block->requested = params.requested;
  if (block->is(Block::kWhole)) [[unlikely]]
    whole_blocks_of(block).handed_out(block->requested);
  if (has(kContexts)) block->detail().context = params.context;
  device_.shared.addresses.set(block->address, BlockArena::number_of(block));
  device_.trace(Action::kAlloc, block->address, params.requested, params.stream, *params.pool,
                params.context);
  if (has(kLabels | kTenants | kWatched)) [[unlikely]]
    device_.owners.take(block, params.owner, device_.flags.load());
  if (MemoryWatch* watch = device_.watch_of(*params.pool)) [[unlikely]]
    watch->handed_out(block, params.stream);
  return block;
}

// The policy may have cut it off from a free block.
void BlockCache::put_back(Block* block) {
  const Neighbours free = free_neighbours(block);
  if (device_.policy) device_.policy->merging(block, free);
  device_.heap.merge(block, free);
  device_.heap.insert_free(block);
}

// ---- The way back

Counters::Change BlockCache::change_of_any_free(const Block* block, Neighbours free) const {
  Counters::Change change = change_of_free(block, free);
  change.oversize = device_.settings.oversize_of(block->size);
  return change;
}

// A free that no part of the device has to be told of: request and completion are one move of the
// counters.
bool BlockCache::free_to_cache(Shard& shard, Block* block) {
  const Neighbours free = free_neighbours(block);
  if (!device_.shards.count(shard, list_of(block).is_small,
                            Counters::freeing(change_of_any_free(block, free))))
    return false;
  if (shard.preserves_for != 0) [[unlikely]]
    preserve_before_free(shard, block, free);
  block->clear(Block::kUsed);
  block->clear(Block::kIdle);
  if (has(kContexts)) block->detail().context = kNoContext;
  device_.heap.merge(block, free);
  if (has(kServing)) block->requested = device_.settings.clock();
  device_.heap.insert_free(block);
  return true;
}

// The general free: the request is counted and recorded, then the free completes or begins to wait.
void BlockCache::free(Block* block, std::optional<Stream> current_stream, ContextId context) {
  StreamFreeList& list = list_of(block);
  // Throws before anything has changed: the caller still has the block.
  if (block->is(Block::kRecorded)) device_.pending.reserve();
  block->clear(Block::kUsed);
  block->clear(Block::kIdle);
  block->clear(Block::kShared);
  device_.shards.begin_waiting();
  const Counters::Change change{static_cast<int64_t>(block->size), 0, 0, 0,
                                device_.settings.oversize_of(block->size)};
  device_.shards.count(*list.shard, list.is_small, Counters::requesting_free(change));
  device_.trace(Action::kFreeRequested, block->address, block->requested, device_.stream_of(block),
                *list.pool, context ? context : block->detail().context);
  if (has(kLabels | kTenants)) [[unlikely]]
    device_.owners.give_up(block, device_.flags.load());
  if (!block->is(Block::kRecorded)) [[likely]]
    return complete_free(block, context);
  block->set(Block::kWaiting);
  device_.pending.wait(block, current_stream, settings().graph_capture_record_stream_reuse);
}

// Cannot fail: it also runs in the midst of later calls, when the events of the block are done. The
// watch comes first, while the block still has its own size.
void BlockCache::complete_free(Block* block, ContextId context) {
  const StreamFreeList& list = list_of(block);
  if (MemoryWatch* watch = device_.watch_of(*list.pool)) [[unlikely]]
    watch->freed(block, device_.assumed_caller(block));
  if (has(kLabels | kWatched)) [[unlikely]]
    device_.owners.release_label(block);
  device_.trace(Action::kFreeCompleted, block->address, block->requested, device_.stream_of(block),
                *list.pool, context ? context : block->detail().context);
  if (has(kContexts)) block->detail().context = kNoContext;
  const bool is_whole = block->is(Block::kWhole);
  if (is_whole) [[unlikely]]
    whole_blocks_of(block).freed(block->requested);
  const Neighbours free = free_neighbours(block);
  device_.shards.count(*list.shard, list.is_small,
                       Counters::completing_free(change_of_any_free(block, free)));
  if (device_.policy) {
    device_.policy->freed(block);
    device_.policy->merging(block, free);
  }
  device_.heap.merge(block, free);
  device_.heap.insert_free(block);
  if (is_whole) [[unlikely]]
    whole_blocks_of(block).stamp(block);
}

}  // namespace cachalot
