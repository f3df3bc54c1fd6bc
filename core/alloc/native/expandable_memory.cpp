// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/expandable_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alloc/native/block_cache.h"
#include "alloc/native/new_range.h"

namespace cachalot {

// [exp 2.2, 2.4] The first hole by address that is large enough with its free surroundings.
Block* ExpandableMemory::find_expandable_block(AllocParams& params) {
  const auto [first, end] = params.pool->unmapped.equal_range(params.stream);
  for (auto place = first; place != end; ++place) {
    Block* hole = *place;
    // One step back is enough: no two neighbours are both free and mapped.
    Block* start = hole->prev->is_free() ? hole->prev : hole;
    uint64_t available = 0;
    for (Block* b = start; b->is_free(); b = b->next) {
      available += b->size;
      if (available >= params.size) return start;
    }
  }
  return new_expandable_segment(params);
}

// R65: what a new segment of this stream reserves, before rounding to pages.
uint64_t ExpandableMemory::expandable_reserve(Stream stream, uint64_t total) {
  if (!rules().has_reserves) return total + total / 8;
  const std::string name = device_.shared.reserve_classes.of(stream);
  const ReserveDecision decision = decide_reserve(settings(), name, total);
  if (decision.reserve_bytes && !name.empty() && !decision.is_class_known) {
    device_.shared.log.warn_once(
        "reserve class " + name,
        "expandable_segments reserve class '" + name +
            "' has no configured reserve in expandable_segments_reserve_by_class; "
            "using the default "
            "reserve.");
  }
  return decision.segment_bytes;
}

// How many pages of this size a new segment reserves.
uint64_t ExpandableMemory::pages_to_reserve(const AllocParams& params, uint64_t page) {
  uint64_t total = 0;
  const DriverCode code = driver().total_memory(device_.index, &total);
  if (code != kSuccess) throw runtime_error(driver(), code);
  uint64_t wanted = expandable_reserve(params.stream, total);
  // U17: at least the request, but never more addresses than the reference would take.
  if (rules().mend_reserve) wanted = std::min(std::max(wanted, params.size), total + total / 8);
  return PageTable::pages_for(std::min(wanted, kAddressEnd), page);
}

// Null: too small for the request (R66).
Block* ExpandableMemory::new_expandable_segment(AllocParams& params) {
  const uint64_t page = device_.settings.page_size(params.pool->is_small);
  DriverCode refusal = kSuccess;
  Block* const block = reserve_range(params, pages_to_reserve(params, page), &refusal);
  if (refusal != kSuccess) throw driver_error(driver(), refusal);
  return block;
}

Block* ExpandableMemory::new_range(AllocParams& params) {
  const uint64_t page = device_.settings.page_size(params.pool->is_small);
  DriverCode refusal = kSuccess;
  Block* const usual = reserve_range(params, pages_to_reserve(params, page), &refusal);
  return usual ? usual : reserve_range(params, PageTable::pages_for(params.size, page), &refusal);
}

// An unmapped block that covers a range of so many pages. Null: the driver refuses, or the range is too small
// for the request (R66).
Block* ExpandableMemory::reserve_range(AllocParams& params, uint64_t pages, DriverCode* refusal) {
  BlockPool& pool = *params.pool;
  const uint64_t page = device_.settings.page_size(pool.is_small);
  const uint64_t size = pages * page;
  device_.heap.reserve(params.shard().supply, 4);
  StreamFreeList& list = BlockCache(device_).list_for(pool, params.stream);
  BlockPool::Unmapped::node_type place = BlockPool::new_unmapped();
  auto segment = std::make_unique<Segment>();
  // Up to here nothing of the device has changed, so a lack of memory of the host needs no undoing.
  device_.expandable.reserve_one();
  *refusal = driver().reserve(device_.index, size, &segment->address);
  if (*refusal != kSuccess) return nullptr;
  const Address address = segment->address;
  const auto give_back = [&] { driver().unreserve(device_.index, address, size); };
  if (size < params.size && (has(kServing) || rules().gives_up_segments_too_small)) {
    give_back();
    return nullptr;
  }
  require_new_range(device_.heap, pool, address, size, give_back);
  segment->size = size;
  segment->stream = params.stream;
  Block* block = nullptr;
  try {
    segment->pages =
        std::make_unique<PageTable>(driver(), device_.shared.handle_types, device_.shared.log,
                                    device_.index, address, page, pages);
    block = device_.heap.add_segment(std::move(segment), list);
  } catch (const std::bad_alloc&) {
    give_back();
    throw;
  }
  // Only now: a segment that could not be made takes no number (R2).
  block->segment()->number = device_.shared.next_segment_number++;
  device_.expandable.add(block->segment());
  block->set_flags(Block::kExpandable | Block::kUnmapped);
  pool.insert_unmapped(std::move(place), block);
  return block;
}

// [exp 3] Null: out of memory; pages mapped on the way stay [exp 3.3].
Block* ExpandableMemory::try_allocate_expandable_block(AllocParams& params) {
  Block* block = find_expandable_block(params);
  if (!block) return nullptr;
  device_.heap.reserve(params.shard().supply, 4);
  // A mapped block here is one that the search refused, or one before the hole [exp 2.3].
  if (!block->is(Block::kUnmapped)) device_.shared.addresses.make_room(block->address);
  if (block->is(Block::kUnmapped) &&
      !map_block(block, std::min(params.size, block->size), params.context)) {
    return nullptr;
  }
  while (block->size < params.size) {
    Block* hole = block->next;
    if (!hole->is(Block::kUnmapped)) return nullptr;  // the range itself is too small
    device_.heap.reserve(params.shard().supply, 4);
    if (!map_block(hole, std::min(params.size - block->size, hole->size), params.context))
      return nullptr;
    block = hole;
  }
  SegmentHeap::remove_free(block);
  // Once a growth, but unmapping takes 1 away for each call [exp 4.7]: U4 comes from that.
  if (params.pool->owner) params.pool->owner->driver_allocations++;
  return block;
}

// [exp 4] False: out of memory.
bool ExpandableMemory::map_block(Block* block, uint64_t size, ContextId context) {
  PageTable& pages = *block->segment()->pages;
  const uint64_t mapped = std::min(round_up(size, pages.page_size()), block->size);
  prepare_map(block, mapped);
  if (!pages.map(block->address, mapped, device_.expandable.peers())) return false;
  finish_map(block, mapped, context);
  return true;
}

void ExpandableMemory::map_pages(Block* block, std::span<const uint64_t> handles,
                                 ContextId context) {
  prepare_map(block, block->size);
  block->segment()->pages->map_pages(block->address, handles, device_.expandable.peers());
  finish_map(block, block->size, context);
}

// All memory of the host comes first, so that nothing can fail behind the driver's calls.
void ExpandableMemory::prepare_map(const Block* block, uint64_t size) {
  const BlockPool& pool = *block->segment()->pool;
  const Segment& segment = *block->segment();
  // Where a page can begin or end within a MiB, a later one may share the MiB with a live block.
  const bool shares = (segment.address | segment.pages->page_size()) % MiB != 0;
  device_.shared.addresses.prepare(block->address, size, pool.is_small || shares);
  device_.shared.addresses.make_room(block->address);
  device_.stats.reserve_pool_row(pool_id_of(pool));
}

// The first `mapped` bytes of an unmapped block have pages now, and become a free block.
void ExpandableMemory::finish_map(Block* block, uint64_t mapped, ContextId context) {
  Segment& segment = *block->segment();
  BlockPool& pool = *segment.pool;
  const Address begin = block->address;
  if (MemoryWatch* watch = device_.watch_of(pool))
    watch->came(begin, mapped, segment.pages->page_size());
  // The node of the block serves its rest, so nothing can fail once the pages are mapped.
  BlockPool::Unmapped::node_type place = pool.unmapped.extract(block);
  if (mapped < block->size)
    pool.insert_unmapped(std::move(place), SegmentHeap::split_back(block, block->size - mapped));
  block->set_flags(Block::kExpandable);
  device_.heap.merge(block, free_neighbours(block));
  device_.heap.insert_free(block);
  device_.stats.pages_mapped(pool_id_of(pool), pool.is_small, mapped);
  device_.trace(Action::kSegmentMap, begin, mapped, segment.stream, pool, context);
  // The context of the first growth stands for the segment (P32).
  if (block->prev == &segment.ends && block->detail().segment_context == kNoContext)
    block->detail().segment_context = context;
}

// From the back, so that what lies before a run is the block that had it.
void ExpandableMemory::unmap_block(Block* block, ContextId context) {
  const auto [begin, end] = block->segment()->pages->whole_pages(block->address, block->size);
  std::vector<std::pair<Address, Address>> runs;
  device_.heap.pins().for_each_unpinned(
      begin, end, [&](Address from, Address to) { runs.emplace_back(from, to); });
  if (runs.empty()) return;
  if (device_.policy) device_.policy->before_unmap(block);
  const Segment& segment = *block->segment();
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    // A free does not wait for the block's own stream, so work on the pages may be under way [exp 6.3].
    if (!device_.policy) segment.pages->synchronize(segment.stream);
    block = unmap_pages(block, run->first, run->second, context);
    if (std::next(run) != runs.rend()) block = block->prev;
  }
  // Nothing of the range is mapped, so it goes too [exp 6.5].
  if (!block->is_split()) remove_range(block);
}

// Gives the unmapped block that is left of a run of whole pages.
Block* ExpandableMemory::unmap_pages(Block* block, Address begin, Address end, ContextId context) {
  Segment& segment = *block->segment();
  BlockPool& pool = *segment.pool;
  // All memory of the host comes first: pages that are gone cannot be taken back.
  device_.heap.reserve(list_of(block).shard->supply, 2);
  BlockPool::Unmapped::node_type place = BlockPool::new_unmapped();
  if (MemoryWatch* watch = device_.watch_of(pool)) watch->goes(begin, end - begin);
  segment.pages->unmap(begin, end - begin);
  if (device_.policy) device_.policy->unmapped(end - begin);
  cut_out_unmapped(block, begin, end);
  add_hole(block, std::move(place));
  announce_unmapped(*block, begin, end, context);
  if (pool.owner && pool.owner->driver_allocations-- <= 0) {
    device_.shared.log.differ("U4", "unmapped more pieces than there were growths");
  }
  device_.stats.count_device_free();
  return block;
}

// ---- Pools that sleep

// One page where the bytes are less than that, so that each step goes on.
uint64_t ExpandableMemory::whole_pages_of(uint64_t bytes, Address address) const {
  const uint64_t page = device_.heap.segment_in(address, 1)->pages->page_size();
  return std::max(page, round_down(bytes, page));
}

// The caller knows that no work is left, so no stream is waited for. No growth goes with these pages (U4).
void ExpandableMemory::unmap_end(Block* block, uint64_t most, ContextId context) {
  const auto [begin, end] = block->segment()->pages->whole_pages(block->address, block->size);
  CACHALOT_ASSERT(1, begin == block->address && end == block->address + block->size);
  const uint64_t size = std::min(end - begin, whole_pages_of(most, begin));
  block->segment()->pool->owner->driver_allocations++;
  unmap_pages(block, end - size, end, context);
}

// Pages that are there already are those that an earlier attempt could not give back.
bool ExpandableMemory::map_range(Address begin, Address end, ContextId context) {
  while (begin < end) {
    const Block* const around = device_.heap.block_around(begin);
    const Address to = std::min(end, around->address + around->size);
    if (around->is(Block::kUnmapped) && !map_hole(begin, to - begin, context)) return false;
    begin = to;
  }
  return true;
}

// A hole that was cut in two is whole again where the driver refuses.
bool ExpandableMemory::map_hole(Address begin, uint64_t size, ContextId context) {
  Block* const hole = hole_at(begin);
  const auto put_back = [&] {
    BlockPool& pool = *hole->segment()->pool;
    BlockPool::Unmapped::node_type place = pool.unmapped.extract(hole);
    add_hole(hole, std::move(place));
  };
  try {
    if (map_block(hole, size, context)) return true;
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
  return false;
}

// The part before the address keeps the object and its place in the unmapped set, which is sorted by addresses.
Block* ExpandableMemory::hole_at(Address address) {
  Block* const hole = device_.heap.block_around(address);
  CACHALOT_ASSERT(1, hole->is(Block::kUnmapped) && hole->is_free());
  device_.heap.reserve(*list_of(hole).supply, 4);
  if (hole->address == address) return hole;
  BlockPool::Unmapped::node_type place = BlockPool::new_unmapped();
  Block* const back = SegmentHeap::split_back(hole, hole->address + hole->size - address);
  hole->segment()->pool->insert_unmapped(std::move(place), back);
  return back;
}

std::vector<Block*> ExpandableMemory::empty_ranges() const {
  std::vector<Block*> found;
  for (const auto& [address, segment] : device_.heap.segments()) {
    if (!segment->is_expandable() || segment->pages->mapped_bytes() != 0) continue;
    Block* const first = segment->first();  // which no hit changes now
    if (first->is_free() && !first->is_split()) found.push_back(first);
  }
  return found;
}

void ExpandableMemory::remove_empty_ranges(const std::function<bool(const Segment&)>& matches) {
  for (Block* block : empty_ranges()) {
    if (matches(*block->segment())) remove_range(block);
  }
}

void ExpandableMemory::remove_range(Block* only_block) {
  CACHALOT_ASSERT(1, only_block->is(Block::kUnmapped) && !only_block->is_split());
  Segment& range = *only_block->segment();
  // The answer is ignored: no call could use the addresses any more.
  driver().unreserve(device_.index, range.address, range.pages->reserved_bytes());
  range.pool->unmapped.erase(only_block);
  device_.expandable.remove(&range);
  device_.heap.remove_segment(only_block);
}

Block* ExpandableMemory::take_pages(Block* block, Address begin, Address end, ContextId context,
                                    std::vector<uint64_t>* handles) {
  const Segment& segment = *block->segment();
  device_.heap.reserve(list_of(block).shard->supply, 2);
  if (MemoryWatch* watch = device_.watch_of(*segment.pool)) watch->goes(begin, end - begin);
  segment.pages->take_pages(begin, end - begin, handles);
  cut_out_unmapped(block, begin, end);
  block->set(Block::kWaiting);
  announce_unmapped(*block, begin, end, context);
  return block;
}

void ExpandableMemory::end_waiting(Block* hole, BlockPool::Unmapped::node_type place) {
  CACHALOT_ASSERT(1, hole->is(Block::kUnmapped) && hole->is(Block::kWaiting));
  hole->segment()->pages->end_mapping(hole->address, hole->size);
  hole->clear(Block::kWaiting);
  add_hole(hole, std::move(place));
}

// The pages of [begin, end) are gone from a free block. It becomes what they leave; the parts of it on both
// sides become blocks of their own, and stay free.
void ExpandableMemory::cut_out_unmapped(Block* block, Address begin, Address end) {
  const BlockPool& pool = *block->segment()->pool;
  Shard& shard = *list_of(block).shard;
  if (pool.is_small) device_.shared.addresses.release(begin, end - begin);
  SegmentHeap::remove_free(block);
  block->clear(Block::kIdle);               // what stays mapped is a new block, which has no time
  const uint64_t stamp = block->requested;  // the pieces keep it, where it is one
  const auto keep = [&](Block* piece) {
    if (has(kServing)) piece->requested = stamp;
    device_.heap.insert_free(piece);
  };
  if (begin > block->address)
    keep(SegmentHeap::split_front(shard.supply, block, begin - block->address));
  if (end < block->address + block->size)
    keep(SegmentHeap::split_back(block, block->address + block->size - end));
  block->set_flags(Block::kExpandable | Block::kUnmapped);
}

void ExpandableMemory::add_hole(Block* hole, BlockPool::Unmapped::node_type place) {
  device_.heap.merge(hole, free_neighbours(hole));
  hole->segment()->pool->insert_unmapped(std::move(place), hole);
}

// hole: what has the addresses now.
void ExpandableMemory::announce_unmapped(const Block& hole, Address begin, Address end,
                                         ContextId context) {
  const Segment& segment = *hole.segment();
  const BlockPool& pool = *segment.pool;
  device_.stats.pages_unmapped(pool_id_of(pool), pool.is_small, end - begin);
  device_.trace(Action::kSegmentUnmap, begin, end - begin, segment.stream, pool,
                context ? context : hole.detail().segment_context);
}

}  // namespace cachalot
