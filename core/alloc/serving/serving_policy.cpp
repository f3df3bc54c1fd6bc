// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/serving/serving_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alloc/native/block_cache.h"
#include "alloc/native/expandable_memory.h"
#include "base/text.h"
#include "base/units.h"
#include "device/driver_error.h"

namespace cachalot {
namespace {

// The block that has the address: this one, or one behind it.
Block* block_from(Block* block, Address address) {
  while (address - block->address >= block->size) block = block->next;
  return block;
}

// Of the run behind this block. pre: one of its blocks has the address.
Block* block_at(Block* before, Address address) { return block_from(before->next, address); }

Segment& range_of(const Place& place) { return *place.before->next->segment(); }

constexpr uint64_t kDefaultPage = 2 * MiB;

// What the pages of each device are to be multiples of.
std::vector<uint64_t> granularities_of(Driver& driver) {
  std::vector<uint64_t> granularities;
  for (int device = 0; device < driver.device_count(); device++) {
    uint64_t least = 0;
    const DriverCode code = driver.granularity(device, &least);
    if (code != kSuccess) throw driver_error(driver, code);
    if (least == 0) {
      throw_not_supported(format("the driver %s maps memory of device %d in multiples of 0 bytes",
                                 driver.name(), device));
    }
    granularities.push_back(least);
  }
  return granularities;
}

}  // namespace

// All devices of an allocator have one page size.
ServingOptions resolve_page_size(ServingOptions options, Driver& driver) {
  if (!driver.supports_virtual_memory()) {
    throw_not_supported(
        std::string("the serving policy and pages need virtual memory, which the driver ") +
        driver.name() + " does not have");
  }
  const std::vector<uint64_t> granularities = granularities_of(driver);
  if (options.page_bytes == 0) {
    options.page_bytes = kDefaultPage;
    for (const uint64_t least : granularities) {
      options.page_bytes = std::max(options.page_bytes, least);
    }
  }
  for (const uint64_t least : granularities) {
    if (options.page_bytes % least == 0) continue;
    throw_invalid_argument(format("pages of %s are not a multiple of the driver's %s",
                                  format_size(options.page_bytes).c_str(),
                                  format_size(least).c_str()));
  }
  return options;
}

ServingPolicy::ServingPolicy(DeviceState& device)
    : DeviceOperation(device),
      order_(device),
      holes_(device),
      soft_limit_(device.settings.serving().thrift) {}

PolicyStats ServingPolicy::stats() const {
  PolicyStats stats = stats_;
  stats.stream_waits = order_.stream_waits();
  stats.host_waits = order_.host_waits();
  return stats;
}

// The pages that were made and have not gone back are those that lie in ranges.
std::string ServingPolicy::check() const {
  uint64_t mapped = 0;
  for (const auto& [address, segment] : device_.heap.segments()) {
    if (segment->is_expandable()) mapped += segment->pages->mapped_bytes();
  }
  const uint64_t counted = (stats_.pages_created - stats_.pages_released) * page_size();
  if (mapped != counted) {
    return format("%llu bytes of pages are mapped where %llu were counted",
                  static_cast<unsigned long long>(mapped),
                  static_cast<unsigned long long>(counted));
  }
  const std::string wrong = holes_.check();
  return wrong.empty() ? order_.check() : wrong;
}

// [policy P5] The search in the cache has found nothing.
Block* ServingPolicy::find_memory(AllocParams& params) {
  Block* block = borrow_or_place(params);
  if (!block && wait_for_frees_and_holes(params)) {
    device_.heap.reserve(params.shard().supply, 1);
    block = BlockCache(device_).get_free_block(params);
    if (!block) block = borrow_or_place(params);
  }
  device_.settings.tick();
  return block;
}

// With Borrow::kAtLimit a block is borrowed where no new page serves. With thrift idle pages come before
// new ones, so there no page at all serves then.
Block* ServingPolicy::borrow_or_place(AllocParams& params) {
  const ServingOptions& options = device_.settings.serving();
  const bool is_at_limit = options.borrow == Borrow::kAtLimit;
  const bool borrows_last = is_at_limit && options.thrift;
  Block* block = nullptr;
  if (is_at_limit) block = find_place(params, borrows_last ? Pages::kAny : Pages::kNew);
  if (!block && may_borrow(params)) block = borrow(params);
  return block || borrows_last ? block : find_place(params, Pages::kAny);
}

bool ServingPolicy::may_borrow(const AllocParams& params) const {
  return device_.settings.serving().borrow != Borrow::kNever && !params.pool->owner &&
         !device_.captures.may_be_under_way();
}

// The smallest block that fits among those of other streams, of the lowest such stream.
Block* ServingPolicy::smallest_of_others(const AllocParams& params) const {
  Block* found = nullptr;
  for (auto& [stream, list] : params.pool->lists) {
    Block* const block = stream == params.stream ? nullptr : list.free.first_at_least(params.size);
    if (block && (!found || block->size < found->size)) found = block;
  }
  return found;
}

Block* ServingPolicy::borrow(AllocParams& params) {
  Block* const found = smallest_of_others(params);
  if (!found) return nullptr;
  StreamFreeList& list = list_of(found);
  device_.heap.reserve(list.shard->supply, 1);
  device_.shared.addresses.make_room(found->address);
  SegmentHeap::remove_free(found);
  params.entry = list.entry;  // the lender's shard counts the block
  return found;
}

// Follows find_memory() without a step of it.
Outcome ServingPolicy::outcome(const AllocParams& params, uint64_t device_free) const {
  const ServingOptions& options = device_.settings.serving();
  const bool lends = may_borrow(params) && smallest_of_others(params);
  if (lends && options.borrow == Borrow::kFirst) return Outcome::kFromCache;
  PlaceSearch search = search_for(params);
  const std::optional<Place> place = search.fewest_missing();
  if (!place && !may_reserve(params)) return lends ? Outcome::kFromCache : Outcome::kFails;
  const uint64_t missing = place ? place->missing : round_up(params.size, page_size());
  const uint64_t room = std::min(pages_below(limit()), device_free / page_size()) * page_size();
  if (missing <= room) return Outcome::kFromDevice;
  const std::optional<Place> tight = place ? search.fewest_pages() : place;
  const bool suffices =
      missing <= room + idle_bytes(place) || (tight && tight->missing <= room + idle_bytes(tight));
  if (lends && !(options.thrift && suffices)) return Outcome::kFromCache;
  return suffices ? Outcome::kAfterRelease : Outcome::kFails;
}

// What can move to a place; none: to a new range.
uint64_t ServingPolicy::idle_bytes(const std::optional<Place>& place) const {
  if (device_.captures.may_be_under_way()) return 0;
  if (place) return IdlePages(device_, order_, page_size(), *place).bytes();
  SegmentHeap& heap = device_.heap;
  return heap.releasable_bytes(heap.default_pool(false)) +
         heap.releasable_bytes(heap.default_pool(true));
}

// ---- Hand-outs

void ServingPolicy::merging(Block* block, Neighbours free) {
  if (free.before) order_.absorb(block, block->prev, block->prev->requested);
  if (free.after) order_.absorb(block, block->next, block->next->requested);
}

// Within a capture neither the search nor a place has taken memory that other streams used.
void ServingPolicy::before_hand_out(const Block* found, Stream stream) {
  if (device_.captures.may_be_under_way()) return;
  if (found->segment()->stream != stream) order_.reserve_loan(stream);
  order_.wait_in_stream(found, stream);
}

void ServingPolicy::handed_out(Block* found, Block* used, Stream stream) {
  order_.handed_out(found, used);
  if (used->segment()->stream == stream) return;
  order_.lend(used, stream);
  stats_.blocks_borrowed++;
}

Stream ServingPolicy::user_of(const Block* block) const {
  const Stream own = block->segment()->stream;
  return block->is(Block::kForeign) ? order_.user_of(block).value_or(own) : own;
}

// The work is done by then that other blocks were recorded for.
void ServingPolicy::stream_ended(Stream stream) {
  order_.stream_ended(stream);
  device_.heap.for_each_block([&](Block* block) {
    if (block->is(Block::kUsed)) device_.pending.forget_use(block, stream);
  });
  device_.pending.forget_deferred_uses(stream);
  for (const auto& [address, range] : device_.heap.segments()) {
    if (range->stream == stream) range->has_stream_ended = true;
  }
  ExpandableMemory(device_).remove_empty_ranges(
      [stream](const Segment& range) { return range.stream == stream; });
}

// ---- Places

// Null: there is no place for which pages suffice.
Block* ServingPolicy::find_place(AllocParams& params, Pages from) {
  look_at_holes();
  const std::optional<Place> place = search_or_reserve(params);
  if (!place) return nullptr;
  Block* const block = take(*place, from, params);
  if (block || from == Pages::kNew) return block;
  return take(*search_for(params).fewest_pages(), from, params);
}

PlaceSearch ServingPolicy::search_for(const AllocParams& params) const {
  return {*params.pool, params.stream, params.size, !device_.captures.may_be_under_way()};
}

// Reserves another range where no run of the stream is long enough [policy P3].
std::optional<Place> ServingPolicy::search_or_reserve(AllocParams& params) {
  PlaceSearch search = search_for(params);
  if (const std::optional<Place> place = search.fewest_missing()) return place;
  if (!may_reserve(params) || !ExpandableMemory(device_).new_range(params)) return std::nullopt;
  return search.fewest_missing();
}

// A new range does not serve a request that exceeds device or limit [policy P3].
bool ServingPolicy::may_reserve(const AllocParams& params) const {
  uint64_t total = 0;
  const DriverCode code = driver().total_memory(device_.index, &total);
  if (code != kSuccess) throw runtime_error(driver(), code);
  return params.size <= std::min(total, limit());
}

// False: none waits, or none can be waited for.
bool ServingPolicy::wait_for_frees_and_holes(const AllocParams& params) {
  const bool had_frees = wait_for_pending_frees(params);
  return wait_for_holes() || had_frees;
}

bool ServingPolicy::wait_for_pending_frees(const AllocParams& params) {
  if (!has(kPendingFrees) || device_.captures.is_capture_context(params.current_stream))
    return false;
  device_.stats.count_retry();
  device_.pending.synchronize_and_free_events(params.context, params.current_stream, nullptr);
  return true;
}

void ServingPolicy::finish_moves(bool may_wait) {
  if (may_wait) {
    wait_for_holes();
  } else {
    look_at_holes();
  }
}

void ServingPolicy::look_at_holes() {
  if (holes_.is_empty() || device_.captures.may_be_under_way()) return;
  order_.look_at_progress();
  holes_.end_until(order_.all_finished(), nullptr);
}

bool ServingPolicy::wait_for_holes() {
  if (holes_.is_empty() || device_.captures.may_be_under_way()) return false;
  order_.finish_all();
  holes_.end_until(order_.all_finished(), nullptr);
  return true;
}

// Null: pages do not suffice, and nothing has changed but that some went back to the driver.
Block* ServingPolicy::take(const Place& place, Pages from, AllocParams& params) {
  LoosePages loose(driver(), device_.index, place.missing / page_size(), &stats_.pages_released);
  if (!gather(place, from, params.context, &loose)) return nullptr;
  map(place, params.context, &loose);
  if (params.pool->owner) params.pool->owner->driver_allocations++;
  device_.heap.reserve(params.shard().supply, 2);
  device_.shared.addresses.make_room(place.begin);
  Block* const block = block_at(place.before, place.begin);
  return block->address == place.begin ? (SegmentHeap::remove_free(block), block)
                                       : cut_front(block, place.begin);
}

// The pages that a place misses. False: they do not suffice, and none has moved. New ones are made below the
// soft limit, and where idle ones do not serve. They come first, since nothing but the driver knows how many
// there are.
bool ServingPolicy::gather(const Place& place, Pages from, ContextId context, LoosePages* loose) {
  PageTable& pages = *range_of(place).pages;
  const uint64_t needed = place.missing / page_size();
  const uint64_t allowed = std::min(needed, pages_below(limit()));
  // Within a capture no stream can wait for another, so no page moves.
  if (from == Pages::kNew || device_.captures.may_be_under_way()) {
    if (allowed == needed) create(pages, needed, loose);
    return loose->count() == needed;
  }
  const bool is_within = needed <= std::min(allowed, pages_below(soft_limit_.bytes()));
  if (is_within) create(pages, needed, loose);
  if (loose->count() == needed) return true;
  const IdlePages idle(device_, order_, page_size(), place);
  if (allowed + idle.bytes() / page_size() < needed) return false;
  const bool can_tell = idle.bytes() > 0 && order_.look_at_progress();
  SoftLimit soft_limit = soft_limit_;
  soft_limit.require(device_.stats.reserved() - idle.bytes() + place.missing);
  if (!is_within) {
    // Where the driver cannot tell, only thrift makes the host wait while a new page is to be had.
    const uint64_t ready = can_tell || device_.settings.serving().thrift ? idle.bytes() : 0;
    create_beyond_soft_limit(pages, ready, needed, allowed, &soft_limit, loose);
  }
  if (loose->count() + idle.bytes() / page_size() < needed) return false;
  soft_limit_ = soft_limit;
  const uint64_t missing = (needed - loose->count()) * page_size();
  take_idle(idle.longest_idle(missing), can_tell, range_of(place), context, loose);
  return true;
}

// The new pages among those that are needed: what lies below the soft limit, and what idle pages cannot
// serve. ready: bytes of idle pages that come before new ones.
void ServingPolicy::create_beyond_soft_limit(PageTable& pages, uint64_t ready, uint64_t needed,
                                             uint64_t allowed, SoftLimit* soft_limit,
                                             LoosePages* loose) {
  const uint64_t moved = std::min(needed, ready / page_size());
  const uint64_t below = std::min(needed, pages_below(soft_limit->bytes()));
  const uint64_t wanted = std::max(below, needed - moved);
  create(pages, std::min(allowed, wanted), loose);
  if (allowed == needed && loose->count() == wanted)
    soft_limit->moved((needed - wanted) * page_size());
}

// What lies behind `begin`, in no set; both parts keep the stamps.
Block* ServingPolicy::cut_front(Block* front, Address begin) {
  SegmentHeap::remove_free(front);
  Block* const block = SegmentHeap::split_back(front, front->address + front->size - begin);
  block->clear(Block::kForeign);  // until it has an entry of its own
  block->requested = front->requested;
  try {
    order_.copy(front, block);
  } catch (...) {
    device_.heap.insert_free(block);  // a merge takes it from its set
    device_.heap.merge(front, {false, true});
    device_.heap.insert_free(front);
    throw;
  }
  device_.heap.insert_free(front);
  return block;
}

// ---- Pages [policy P8, P9]

// How many pages can be made before this many bytes are reserved.
uint64_t ServingPolicy::pages_below(uint64_t bytes) const {
  return (bytes - std::min(bytes, device_.stats.reserved())) / page_size();
}

// Ends early where the driver has no more.
void ServingPolicy::create(PageTable& pages, uint64_t total, LoosePages* loose) {
  while (loose->count() < total) {
    uint64_t handle = 0;
    if (!pages.create_page(&handle)) return;
    loose->handles()->push_back(handle);
    stats_.pages_created++;
  }
}

// can_tell: whether later looks will tell when the device is done with work on the pages. If not, the host
// waits.
void ServingPolicy::take_idle(const std::vector<IdleRange>& ranges, bool can_tell,
                              const Segment& keep, ContextId context, LoosePages* loose) {
  for (const IdleRange& range : ranges) {
    if (!can_tell || order_.is_finished(range.block)) order_.wait_on_host(range.block);
  }
  for (const IdleRange& range : ranges) take_range(range, context, loose);
  holes_.end_until(0, &keep);
}

// The pages of work that is under way take its stamps along.
void ServingPolicy::take_range(const IdleRange& range, ContextId context, LoosePages* loose) {
  // An earlier range of the same block has cut it.
  Block* const block = block_from(range.block, range.begin);
  const bool is_finished = order_.is_finished(block);
  holes_.reserve_one();
  order_.reserve_cut(block);
  if (!is_finished) order_.add_stamps_of(block, loose->mutable_stamps());
  const bool is_front = range.begin == block->address;
  const bool is_back = range.end == block->address + block->size;
  Block* const hole = ExpandableMemory(device_).take_pages(block, range.begin, range.end, context,
                                                           loose->handles());
  order_.cut_out(hole, is_front ? nullptr : hole->prev, is_back ? nullptr : hole->next);
  holes_.add(hole, is_finished ? 0 : range.stamp);
  stats_.pages_moved += range.size() / page_size();
}

// Each hole under the place gets its pages by itself.
void ServingPolicy::map(const Place& place, ContextId context, LoosePages* loose) {
  for (Address at = place.begin; at < place.end();) {
    Block* block = block_at(place.before, at);
    if (block->is(Block::kUnmapped)) {
      block = cut_hole(block, at, place.end());
      map_hole(block, context, loose);
    }
    at = block->address + block->size;
  }
}

// The block takes its neighbours in, with their stamps.
void ServingPolicy::map_hole(Block* hole, ContextId context, LoosePages* loose) {
  const Block* const neighbours[] = {hole->prev, hole->next};
  std::optional<uint64_t> stamps[2];  // the neighbours' objects go with the merge
  for (int i = 0; i < 2; i++) {
    if (neighbours[i]->is_mapped_and_free()) stamps[i] = neighbours[i]->requested;
  }
  const uint64_t count = hole->size / page_size();
  try {
    order_.reserve_stamps(loose->stamps());
    ExpandableMemory(device_).map_pages(hole, loose->last(count), context);
  } catch (...) {
    device_.heap.merge(hole, free_neighbours(hole));  // with what it was cut from
    throw;
  }
  loose->drop_last(count);
  hole->requested = 0;
  order_.put_stamps(hole);
  for (int i = 0; i < 2; i++) {
    if (stamps[i]) order_.absorb(hole, neighbours[i], *stamps[i]);
  }
}

// The whole pages of a hole that lie under [begin, end), as an unmapped block of their own.
Block* ServingPolicy::cut_hole(Block* hole, Address begin, Address end) {
  Segment& range = *hole->segment();
  BlockPool& pool = *range.pool;
  device_.heap.reserve(*list_of(hole).supply, 2);
  BlockPool::Unmapped::node_type front_place = BlockPool::new_unmapped();
  BlockPool::Unmapped::node_type back_place = BlockPool::new_unmapped();
  const Address first = range.address + round_down(begin - range.address, page_size());
  const Address last = range.address + round_up(end - range.address, page_size());
  const Address hole_end = hole->address + hole->size;
  if (first > hole->address) {
    hole = SegmentHeap::split_back(hole, hole_end - first);
    pool.insert_unmapped(std::move(front_place), hole);
  }
  if (last < hole_end)
    pool.insert_unmapped(std::move(back_place), SegmentHeap::split_back(hole, hole_end - last));
  return hole;
}

}  // namespace cachalot
