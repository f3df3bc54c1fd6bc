// SPDX-License-Identifier: MIT OR Apache-2.0
// Growing and unmapping expandable segments [exp 1 to 9].
//
// Note [Expandable segments]
// Rationale: a plain segment has one size for life, so a program whose sizes change leaves holes
// that fit nothing. A reserved range that is backed page by page can grow at its end instead.
// Approach: the range is a segment whose blocks are mapped or unmapped. Mapping turns (the front
// of) an unmapped block into a free one, unmapping the whole pages of a free one into an unmapped
// one.
// Invariants: mapped bytes of a segment = sizes of its mapped blocks; unmapped blocks are
// page-aligned, free, and in their pool's unmapped set.
// Limitations: a page with one live block stays.
#include "alloc/native/block_steps.h"
#include "alloc/native/hold.h"
#include "base/reserve.h"
#include "base/text.h"

namespace cachalot {

// [exp 2.2, 2.4] The first hole by address that is large enough with its free surroundings.
Block* DeviceAllocator::find_expandable_block(AllocParams& params) {
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
uint64_t DeviceAllocator::expandable_reserve(Stream stream, uint64_t total) {
  if (!rules_.has_reserves) return total + total / 8;
  const std::string name = shared_.reserve_classes.of(stream);
  const ReserveDecision decision = decide_reserve(settings_, name, total);
  if (decision.reserve_bytes && !name.empty() && !decision.is_class_known) {
    shared_.log.warn_once(
        "reserve class " + name,
        "expandable_segments reserve class '" + name +
            "' has no configured reserve in expandable_segments_reserve_by_class; "
            "using the default "
            "reserve.");
  }
  return decision.segment_bytes;
}

// How many pages of this size a new segment reserves.
uint64_t DeviceAllocator::pages_to_reserve(const AllocParams& params, uint64_t page) {
  uint64_t total = 0;
  const DriverCode code = driver_.total_memory(device_, &total);
  if (code != kSuccess) throw runtime_error(driver_, code);
  uint64_t wanted = expandable_reserve(params.stream, total);
  if (rules_.mend_reserve) wanted = std::min(std::max(wanted, params.size), total + total / 8);
  wanted = std::min(wanted, kAddressEnd);  // so that it can be rounded up
  return wanted / page + (wanted % page != 0 ? 1 : 0);
}

// Null: too small for the request (R66).
Block* DeviceAllocator::new_expandable_segment(AllocParams& params) {
  BlockPool& pool = *params.pool;
  const uint64_t page = pool.is_small ? kSmallSegment : settings_.large_segment_size;
  const uint64_t pages = pages_to_reserve(params, page);
  const uint64_t size = pages * page;
  heap_.reserve(params.shard().supply, 4);
  StreamFreeList& list = list_for(pool, params.stream);
  BlockPool::Unmapped::node_type place = BlockPool::new_unmapped();
  auto segment = std::make_unique<Segment>();
  // Up to here nothing of the device has changed, so a lack of memory of the host needs no undoing.
  reserve_one_more(expandable_segments_);
  const DriverCode code = driver_.reserve(device_, size, &segment->address);
  if (code != kSuccess) throw driver_error(driver_, code);
  const Address address = segment->address;
  const auto give_back = [&] { driver_.unreserve(device_, address, size); };
  if (rules_.gives_up_segments_too_small && size < params.size) {
    give_back();
    return nullptr;
  }
  require_new_range(pool, address, size, give_back);
  segment->size = size;
  segment->stream = params.stream;
  Block* block = nullptr;
  try {
    segment->pages = std::make_unique<PageTable>(driver_, shared_.handle_types, shared_.log,
                                                 device_, address, page, pages);
    block = heap_.add_segment(std::move(segment), list);
  } catch (const std::bad_alloc&) {
    give_back();
    throw;
  }
  block->segment()->number = shared_.next_segment_number++;
  expandable_segments_.push_back(block->segment());
  block->set_flags(Block::kExpandable | Block::kUnmapped);
  pool.insert_unmapped(std::move(place), block);
  return block;
}

// [exp 3] Null: out of memory; pages mapped on the way stay [exp 3.3].
Block* DeviceAllocator::try_allocate_expandable_block(AllocParams& params) {
  Block* block = find_expandable_block(params);
  if (!block) return nullptr;
  heap_.reserve(params.shard().supply, 4);
  // A mapped block here is one that the search refused, or one before the hole [exp 2.3].
  if (!block->is(Block::kUnmapped)) shared_.addresses.make_room(block->address);
  if (block->is(Block::kUnmapped) &&
      !map_block(block, std::min(params.size, block->size), params.context)) {
    return nullptr;
  }
  while (block->size < params.size) {
    Block* hole = block->next;
    if (!hole->is(Block::kUnmapped)) return nullptr;  // the range itself is too small
    heap_.reserve(params.shard().supply, 4);
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
bool DeviceAllocator::map_block(Block* block, uint64_t size, ContextId context) {
  Segment& segment = *block->segment();
  BlockPool& pool = *segment.pool;
  const Address begin = block->address;
  const uint64_t mapped = std::min(round_up(size, segment.pages->page_size()), block->size);
  shared_.addresses.prepare(begin, mapped, pool.is_small);
  shared_.addresses.make_room(begin);
  stats_.reserve_pool_row(pool_id_of(pool));
  if (!segment.pages->map(begin, mapped, peers_)) return false;
  if (MemoryWatch* watch = watch_of(pool)) watch->came(begin, mapped, segment.pages->page_size());
  // The node of the block serves its rest, so nothing can fail once the pages are mapped.
  BlockPool::Unmapped::node_type place = pool.unmapped.extract(block);
  if (mapped < block->size)
    pool.insert_unmapped(std::move(place), SegmentHeap::split_back(block, block->size - mapped));
  block->set_flags(Block::kExpandable);
  heap_.merge(block, free_neighbours(block));
  heap_.insert_free(block);
  stats_.pages_mapped(pool_id_of(pool), pool.is_small, mapped);
  trace(Action::kSegmentMap, begin, mapped, segment.stream, pool, context);
  if (block->prev == &segment.ends && block->detail().segment_context == kNoContext)
    block->detail().segment_context = context;
  return true;
}

// [exp 6] Gives the whole pages of a free block back.
void DeviceAllocator::unmap_block(Block* block, ContextId context) {
  Segment& segment = *block->segment();
  BlockPool& pool = *segment.pool;
  const auto [begin, end] = segment.pages->whole_pages(block->address, block->size);
  if (begin == end) return;
  Shard& shard = shard_of(block);
  // All memory of the host comes first: pages that are gone cannot be taken back.
  heap_.reserve(shard.supply, 2);
  BlockPool::Unmapped::node_type place = BlockPool::new_unmapped();
  if (MemoryWatch* watch = watch_of(pool)) watch->goes(begin, end - begin);
  segment.pages->unmap(begin, end - begin, segment.stream);
  if (pool.is_small) shared_.addresses.release(begin, end - begin);
  SegmentHeap::remove_free(block);
  block->clear(Block::kIdle);  // what stays mapped is a new block, which has no time
  if (begin > block->address)
    heap_.insert_free(SegmentHeap::split_front(shard.supply, block, begin - block->address));
  if (end < block->address + block->size)
    heap_.insert_free(SegmentHeap::split_back(block, block->address + block->size - end));
  block->set_flags(Block::kExpandable | Block::kUnmapped);
  heap_.merge(block, free_neighbours(block));
  pool.insert_unmapped(std::move(place), block);
  stats_.pages_unmapped(pool_id_of(pool), pool.is_small, end - begin);
  if (pool.owner && pool.owner->driver_allocations-- <= 0) {
    shared_.log.differ("U4", "unmapped more pieces than there were growths");
  }
  stats_.count_device_free();
  trace(Action::kSegmentUnmap, begin, end - begin, segment.stream, pool,
        context ? context : block->detail().segment_context);
  if (block->is_split()) return;
  // Nothing of the range is mapped, so it goes too [exp 6.5].
  driver_.unreserve(device_, segment.address, segment.pages->reserved_bytes());
  pool.unmapped.erase(block);
  std::erase(expandable_segments_, &segment);
  heap_.remove_segment(block);
}

// ---- Calls

void DeviceAllocator::give_peer_access(int peer) {
  const Hold hold(*this);
  const DriverCode code = driver_.enable_peer(peer, device_);
  if (code != kSuccess) throw runtime_error(driver_, code);
  // A second time the reference calls the runtime, too, but sets no access [core 23.4].
  if (std::find(peers_.begin(), peers_.end(), peer) != peers_.end()) return;
  reserve_one_more(peers_);
  for (Segment* segment : expandable_segments_) segment->pages->give_access(peer);
  peers_.push_back(peer);
}

std::vector<ExpandableSegmentRow> DeviceAllocator::expandable_segments() {
  const std::lock_guard guard(lock_);
  std::vector<ExpandableSegmentRow> rows;
  for (const Segment* segment : expandable_segments_) {
    if (segment->stream == 0) continue;  // [exp 8.10]
    rows.push_back({segment->stream, segment->pages->mapped_bytes(), segment->pool->is_small});
  }
  return rows;
}

std::pair<uint64_t, uint64_t> DeviceAllocator::expandable_totals() {
  const std::lock_guard guard(lock_);
  uint64_t bytes = 0;
  for (const Segment* segment : expandable_segments_) bytes += segment->pages->reserved_bytes();
  return {bytes, expandable_segments_.size()};
}

}  // namespace cachalot
