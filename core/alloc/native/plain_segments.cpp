// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/plain_segments.h"

#include "alloc/native/block_cache.h"
#include "alloc/native/new_range.h"

namespace cachalot {

// ---- Segments come

// Nothing: out of memory, which the steps of a miss expect. Any other failure throws.
std::optional<Address> PlainSegments::ask_driver(AllocParams& params) {
  PrivatePool* const owner = params.pool->owner;
  if (owner && owner->source) {
    const Address address = owner->source->allocate(params.segment_size, device_.index,
                                                    driver().user_handle(params.current_stream));
    if (address != 0) return address;
    params.source_gave_null = true;
    return {};
  }
  Address address = 0;
  const DriverCode code = driver().allocate(device_.index, params.segment_size, &address);
  if (code == kSuccess) return address;
  driver().take_pending_error(
      device_.index);  // else the program would meet the failure in its next call
  if (code == kDriverOutOfMemory) return {};
  throw runtime_error(driver(), code);
}

// All that can fail comes first, in one piece, and gives the range back when it does.
Block* PlainSegments::add(const AllocParams& params, Address address) {
  BlockPool& pool = *params.pool;
  const auto give_back = [&] {
    give_range_to_driver(pool, address, params.segment_size, params.current_stream);
  };
  require_new_range(device_.heap, pool, address, params.segment_size, give_back);
  Block* block = nullptr;
  try {
    // While the device was unlocked others may have taken the objects that were reserved.
    device_.heap.reserve(params.shard().supply, 2);
    StreamFreeList& list = BlockCache(device_).list_for(pool, params.stream);
    device_.shared.addresses.prepare(address, params.segment_size, pool.is_small);
    device_.shared.addresses.make_room(address);
    device_.stats.reserve_pool_row(pool_id_of(pool));
    auto segment = std::make_unique<Segment>();
    segment->address = address;
    segment->size = params.segment_size;
    segment->stream = params.stream;
    segment->source_stream = params.current_stream;
    block = device_.heap.add_segment(std::move(segment), list);
  } catch (...) {
    give_back();
    throw;
  }
  block->segment()->number = device_.shared.next_segment_number++;  // a failed call uses none (R2)
  if (has(kContexts)) block->detail().segment_context = params.context;
  if (pool.owner) pool.owner->driver_allocations++;
  if (has_whole_blocks(pool)) {
    block->set(Block::kWhole);
    pool.owner->whole->obtained(block->size);
  }
  device_.stats.segment_obtained(pool_id_of(pool), pool.is_small, params.segment_size,
                                 params.segment_size >= settings().max_split_size);
  if (MemoryWatch* watch = device_.watch_of(pool))
    watch->came(address, params.segment_size, params.segment_size);
  device_.trace(Action::kSegmentAlloc, address, params.segment_size, params.stream, pool,
                params.context);
  return block;
}

DriverCode PlainSegments::give_range_to_driver(const BlockPool& pool, Address address,
                                               uint64_t size, Stream source_stream) {
  if (!has_source(pool)) return driver().free(device_.index, address);
  pool.owner->source->free(address, size, device_.index, driver().user_handle(source_stream));
  return kSuccess;
}

// ---- Segments go

// [core 15.5] pre: a free plain block that covers its segment. The counter and the entry precede the
// call.
void PlainSegments::release(Block* block, ContextId context) {
  announce_release(block, context);
  const DriverCode code = give_to_driver(block);
  if (code != kSuccess) throw runtime_error(driver(), code);
  SegmentHeap::remove_free(block);
  forget(block);
}

// Before the driver's call, as in the reference: an observer that reads the entry still finds the
// memory mapped.
void PlainSegments::announce_release(const Block* block, ContextId context) {
  const Segment& segment = *block->segment();
  device_.stats.count_device_free();
  device_.trace(Action::kSegmentFree, block->address, block->size, segment.stream, *segment.pool,
                context ? context : block->detail().segment_context);
  if (MemoryWatch* watch = device_.watch_of(*segment.pool))
    watch->goes(block->address, block->size);
}

// The address table comes first: as soon as the driver has the memory, another device may get the same
// addresses, and enter its blocks there.
DriverCode PlainSegments::give_to_driver(const Block* block) {
  CACHALOT_ASSERT(1, !block->is_split() && !block->is(Block::kExpandable | Block::kUsed));
  const Segment& segment = *block->segment();
  const BlockPool& pool = *segment.pool;
  if (pool.is_small) device_.shared.addresses.release(block->address, block->size);
  // Cannot fail: the table got what this needs when the segment came.
  const auto enter_again = [&] {
    if (pool.is_small) device_.shared.addresses.prepare(block->address, block->size, true);
  };
  try {
    const DriverCode code =
        give_range_to_driver(pool, block->address, block->size, segment.source_stream);
    if (code != kSuccess) enter_again();
    return code;
  } catch (...) {
    enter_again();
    throw;
  }
}

// pre: a block that covers its segment, in no set; the driver has the memory back.
void PlainSegments::forget(Block* only_block) {
  BlockPool& pool = *only_block->segment()->pool;
  const uint64_t size = only_block->size;
  if (pool.owner) pool.owner->driver_allocations--;
  if (only_block->is(Block::kWhole)) whole_blocks_of(only_block).given_back(only_block);
  device_.stats.segment_released(pool_id_of(pool), pool.is_small, size,
                                 size >= settings().max_split_size);
  device_.heap.remove_segment(only_block);
}

}  // namespace cachalot
