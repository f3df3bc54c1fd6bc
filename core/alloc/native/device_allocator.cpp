// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/device_allocator.h"

#include <cmath>
#include <utility>

#include "alloc/native/block_steps.h"
#include "alloc/native/hold.h"
#include "alloc/native/hot_path.h"
#include "base/reserve.h"
#include "base/text.h"

namespace cachalot {

namespace {

void require_live(const Block* block, Address address) {
  if (block->address != address || !block->is(Block::kUsed)) [[unlikely]]
    throw invalid_pointer(address);
}

}  // namespace

DeviceAllocator::DeviceAllocator(SharedState& shared, int device)
    : shared_(shared),
      driver_(shared.driver),
      rules_(shared.rules),
      device_(device),
      settings_(shared.settings.current()),
      heap_(shared.arena, flags_,
            [this](const Block* block) { pending_.forget_stale_uses(block); }),
      pools_(shared.rules, shared.log, flags_),
      captures_(shared.driver, shared.rules, device, flags_),
      pending_(shared.driver, device, shared.looks_in_stream_order, shared.log, captures_, flags_,
               *this),
      stats_(rules_.counts_private_pool_bytes, settings_.shown_max_split_size()),
      owners_(shared.labels, shared.tenants, device, flags_),
      recorder_(shared.contexts, shared.rules, device, flags_),
      observers_(std::make_shared<const ObserverSet>()) {
  if (settings_.per_process_memory_fraction < 1)
    set_memory_fraction(settings_.per_process_memory_fraction);
  const Hold hold(*this);
  if (shared_.debug.any()) {
    watch_ =
        std::make_unique<MemoryWatch>(driver_, shared_.debug, device_, shared_.labels, shared_.log);
    flags_.put(kWatched, true);
  }
  flags_.put(kLabels, shared_.track_labels);
  settings_changed();
}

// Makes flags and the rules of hits say what the limit and the settings do. pre: the whole device.
void DeviceAllocator::settings_changed() {
  const auto& divisions = settings_.roundup_power2_divisions;
  flags_.put(kRounding, std::any_of(divisions.begin(), divisions.end(),
                                    [](uint64_t number) { return number > 1; }));
  const bool ages = limit_ != kUnlimited && settings_.garbage_collection_threshold > 0;
  flags_.put(kAging, ages);
  // No age has counted before, so every block was put into its free set at count 0, as its mark says.
  if (ages) flags_.put(kMarks, true);
  if (has(kTenants)) tenants().set_limit(limit_);
  hit_rules_ = {.oversize = settings_.max_split_size,
                .is_expandable = settings_.expandable_segments,
                .least_remainder = {least_remainder(false, settings_.expandable_segments),
                                    least_remainder(true, settings_.expandable_segments)}};
}

// ---- Free lists of streams

// pre: the device's lock, and the shard of the stream.
StreamFreeList& DeviceAllocator::list_for(BlockPool& pool, Stream stream) {
  if (StreamFreeList* found = pool.find(stream)) return *found;
  StreamEntry& entry = entry_for(stream);
  Counters& counters = entry.shard->account.counters;
  StreamFreeList& list =
      pool.lists
          .try_emplace(stream, &pool, &entry, &counters.row(Counters::kind_of(pool.is_small)),
                       &entry.shard->supply, pool.is_small, rules_.ties_by_segment_number)
          .first->second;
  entry.lists++;
  if (!pool.owner) entry.default_lists[pool.is_small] = &list;
  return list;
}

// pre: the device's lock is enough.
void DeviceAllocator::drop_empty_lists(BlockPool& pool) {
  std::erase_if(pool.lists, [&](const auto& item) {
    const StreamFreeList& list = item.second;
    if (list.segments != 0) return false;
    const std::lock_guard guard(list.shard->lock);
    list.entry->lists--;
    if (!pool.owner) list.entry->default_lists[pool.is_small] = nullptr;
    streams_.note_vacancy(list.entry);
    return true;
  });
}

// ---- Sizes

// [core 4] Chooses the slot by the size as asked, not by a rounded one [core 4.6].
uint64_t DeviceAllocator::round_size(uint64_t n) const {
  if (n < kMinBlockSize) return kMinBlockSize;
  if (has(kRounding) && n <= settings_.roundup_bypass_threshold) [[unlikely]] {
    const unsigned power = log2_floor(n);
    const unsigned slot = power < 20 ? 0 : std::min(power - 20, kRoundupSlots - 1u);
    const uint64_t divisions = settings_.roundup_power2_divisions[slot];
    if (divisions > 1 && n > kMinBlockSize * divisions) {
      if (is_power_of_two(n)) return n;
      const uint64_t step = (uint64_t{1} << power) >> log2_floor(divisions);
      // No step: so many divisions that 512 times their number is more than 64 bits [core 4.5].
      return step == 0 ? uint64_t{2} << power : round_up(n, step);
    }
  }
  return (n + kMinBlockSize - 1) & ~(kMinBlockSize - 1);
}

// [core 5.2] The limit and the texts use this size for expandable segments too [core 5.3].
uint64_t DeviceAllocator::segment_size_for(uint64_t size) const {
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLargeAlloc) return settings_.large_segment_size;
  return round_up(size, kRoundLarge);
}

inline BlockPool& DeviceAllocator::pool_for(uint64_t size, Stream stream) {
  const bool is_small = size <= kSmallSize;
  if (has(kRouting)) [[unlikely]] {
    if (const PoolId* route = pools_.route_of(stream)) {
      PrivatePool* pool = pools_.find(*route);
      if (!pool)
        throw_invalid_state("the pool that requests are routed to was released and is gone");
      return pool->of_kind(is_small);
    }
  }
  return heap_.default_pool(is_small);
}

// pre: the shard of the stream.
DeviceAllocator::AllocParams DeviceAllocator::make_params(StreamEntry* entry,
                                                          const Request& request,
                                                          ContextId context) {
  AllocParams params;
  params.requested = has(kWatched) ? watch_->with_red_zone(request.size) : request.size;
  params.size = round_size(params.requested);
  params.stream = request.stream;
  params.current_stream = request.current_stream;
  params.entry = entry;
  params.pool = &pool_for(params.size, request.stream);
  params.expandable = settings_.expandable_segments && !has_source(*params.pool);
  params.context = context;
  return params;
}

// ---- Counting

// False: the counters refuse, and nothing has changed; after a recall of headroom the call tries again.
// Never false for the whole device.
// pre: the shard, at which this call has changed nothing yet but through begin_at().
inline bool DeviceAllocator::count(Shard& shard, bool is_small, const Counters::Move& move) {
  CACHALOT_ASSERT(1, shard.lock.is_held() || has(kWholeDevice));
  Account& account = shard.account;
  const bool may_use_headroom =
      !account.is_shared && !has(kWholeDevice) && !(has(kScarce) && peaks_.has_joined(account));
  if (may_use_headroom && account.counters.move(is_small, move)) return true;
  return peaks_.move(account, is_small, move);
}

// ---- Handing out

Address DeviceAllocator::allocate(const Request& request) {
  const ContextId context = recorder_.capture_context(ContextLevel::kState);
  StreamEntry* const entry = request.at == 0 ? streams_.find(request.stream) : nullptr;
  Address address = 0;
  const auto step = [&] { return allocate_from_cache(*entry, request, context, &address); };
  if (entry && with_headroom(*entry->shard, step)) return address;
  return allocate_on_device(request, context);
}

// pre: the shard.
DeviceAllocator::Step DeviceAllocator::allocate_from_cache(StreamEntry& entry,
                                                           const Request& request,
                                                           ContextId context, Address* address) {
  if (entry.stream.load(std::memory_order_relaxed) != request.stream) return Step::kNeedsDevice;
  heap_.reserve(entry.shard->supply, 1);
  AllocParams params = make_params(&entry, request, context);
  Block* const found = get_free_block(params);
  if (!found) return Step::kNeedsDevice;
  if (const Block* block = alloc_found_block(found, params, should_split(params, found))) {
    *address = block->address;
    return Step::kDone;
  }
  params.list()->free.insert(found);
  return Step::kRefused;
}

// Serves what the shard alone cannot: routed requests, misses.
Address DeviceAllocator::allocate_on_device(const Request& request, ContextId context) {
  Hold hold(*this, request.stream);
  if (request.at != 0) {
    hold.take_all();
    return allocate_at(request, context, hold);
  }
  if (has(kPendingFrees | kRouting | kMarkedCapture)) free_what_is_ready(request, context);
  AllocParams params = make_params(&hold.entry(), request, context);
  const LabelPin label = owners_.pin_label();
  params.owner.label = label.slot();
  const TenantBooking booking = admit(request, params, hold);
  heap_.reserve(params.shard().supply, 1);
  Block* block = get_free_block(params);
  if (!block) [[unlikely]]
    block = obtain_block(params, hold);
  const Block* used = nullptr;
  with_headroom_of_held(params.shard(), [&] {
    used = alloc_found_block(block, params, should_split(params, block));
    return used ? Step::kDone : Step::kRefused;
  });
  return used->address;
}

void DeviceAllocator::free_what_is_ready(const Request& request, ContextId context) {
  if (!captures_.is_capture_context(request.current_stream)) {
    if (has(kPendingFrees)) pending_.process_events(context);
  } else if (settings_.graph_capture_record_stream_reuse) {
    pending_.recover_deferred_frees(
        request.stream, [&](Stream stream) { return pools_.route_of(stream); }, context);
  }
}

// [core 6.4 a] Keeps a block in front of the growing tail for growth while another one reaches less
// far.
Block* DeviceAllocator::step_to_smaller_reach(const StreamFreeList& list, Block* block) const {
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

// [core 6.4 b]
Block* DeviceAllocator::skip_expandable(const StreamFreeList& list, Block* block) const {
  while (block && block->is(Block::kExpandable)) block = list.free.next(block);
  return block;
}

// [core 6.6] The search looks at this candidate only. U22: pages are split whatever the limit
// [core 7.2], so later requests grow past a block of pages that the limit keeps back.
bool DeviceAllocator::is_oversize_mismatch(const AllocParams& params, const Block* block) const {
  if (rules_.mend_split_limit && block->is(Block::kExpandable)) return false;
  if (params.size < settings_.max_split_size) return block->size >= settings_.max_split_size;
  return block->size >= params.size + settings_.max_non_split_rounding_size;
}

// [core 7.1 to 7.3]
inline bool DeviceAllocator::should_split(const AllocParams& params, const Block* block) const {
  const bool is_small = params.pool->is_small;
  const uint64_t remainder = block->size - params.size;
  if (params.pool->no_split || remainder < least_remainder(is_small, params.expandable))
    return false;
  return is_small || params.expandable || params.size < settings_.max_split_size;
}

// Null: refused by the counters, and nothing has changed. pre: the shard; a block in no set.
inline Block* DeviceAllocator::alloc_found_block(Block* block, const AllocParams& params,
                                                 bool split) {
  const uint64_t size = split ? params.size : block->size;
  Counters::Change change = change_of_hand_out(block, size, params.requested, split);
  change.oversize = oversize_of(size);
  Shard& shard = params.shard();
  if (!count(shard, params.pool->is_small, Counters::handing_out(change))) return nullptr;
  if (shard.preserves_for != 0) [[unlikely]]
    preserve(shard, block);
  if (split) {
    Block* remainder = block;
    block = SegmentHeap::split_front(shard.supply, block, size);
    if (shard.preserves_for != 0) [[unlikely]]
      block->detail().preserved_for = shard.preserves_for;
    heap_.insert_free(remainder);
  }
  block->set(Block::kUsed);
  block->requested = params.requested;
  if (has(kContexts)) block->detail().context = params.context;
  shared_.addresses.set(block->address, BlockArena::number_of(block));
  trace(Action::kAlloc, block->address, params.requested, params.stream, *params.pool,
        params.context);
  if (has(kLabels | kTenants | kWatched)) [[unlikely]]
    owners_.take(block, params.owner);
  if (MemoryWatch* watch = watch_of(*params.pool)) [[unlikely]]
    watch->handed_out(block);
  return block;
}

// ---- Freeing

bool DeviceAllocator::free(Shard& shard, Block* block, Address address,
                           std::optional<Stream> current_stream) {
  const ContextId context = recorder_.capture_context(ContextLevel::kAll);
  const auto is_live = [&] { return block->address == address && block->is(Block::kUsed); };
  bool was_live = true;
  const auto step = [&] {
    was_live = is_live();
    if (!was_live) return Step::kDone;
    if (block->is(Block::kRecorded)) return Step::kNeedsDevice;
    return free_to_cache(shard, block) ? Step::kDone : Step::kRefused;
  };
  if (with_headroom(shard, step)) return was_live;
  const Hold hold(*this);
  if (!is_live()) return false;
  free_locked(block, current_stream.value_or(block->segment()->stream), context);
  return true;
}

Counters::Change DeviceAllocator::change_of_any_free(const Block* block, Neighbours free) const {
  Counters::Change change = change_of_free(block, free);
  change.oversize = oversize_of(block->size);
  return change;
}

// False: refused by the counters. pre: the shard; no flag of the whole device; a block in use that
// no other stream uses.
bool DeviceAllocator::free_to_cache(Shard& shard, Block* block) {
  const Neighbours free = free_neighbours(block);
  if (!count(shard, list_of(block).is_small, Counters::freeing(change_of_any_free(block, free))))
    return false;
  if (shard.preserves_for != 0) [[unlikely]]
    preserve_before_free(shard, block, free);
  block->clear(Block::kUsed);
  block->clear(Block::kIdle);
  if (has(kContexts)) block->detail().context = kNoContext;
  heap_.merge(block, free);
  heap_.insert_free(block);
  return true;
}

void DeviceAllocator::free_locked(Block* block, Stream current_stream, ContextId context) {
  StreamFreeList& list = list_of(block);
  if (block->is(Block::kRecorded)) pending_.reserve();
  block->clear(Block::kUsed);
  block->clear(Block::kIdle);
  if (!peaks_.has_waiting()) peaks_.begin_waiting(sums());
  const Counters::Change change{static_cast<int64_t>(block->size), 0, 0, 0,
                                oversize_of(block->size)};
  count(*list.shard, list.is_small, Counters::giving_back(change));
  trace(Action::kFreeRequested, block->address, block->requested, list.stream, *list.pool,
        context ? context : block->detail().context);
  if (has(kLabels | kTenants)) [[unlikely]]
    owners_.give_up(block);
  if (!block->is(Block::kRecorded)) [[likely]]
    return complete_free(block, context);
  block->set(Block::kWaiting);
  pending_.wait(block, current_stream, settings_.graph_capture_record_stream_reuse);
}

// [core 10.2] pre: the block is neither used nor waiting.
void DeviceAllocator::complete_free(Block* block, ContextId context) {
  const StreamFreeList& list = list_of(block);
  if (MemoryWatch* watch = watch_of(*list.pool)) [[unlikely]]
    watch->freed(block);
  if (has(kLabels | kWatched)) [[unlikely]]
    owners_.release_label(block);
  trace(Action::kFreeCompleted, block->address, block->requested, list.stream, *list.pool,
        context ? context : block->detail().context);
  if (has(kContexts)) block->detail().context = kNoContext;
  const Neighbours free = free_neighbours(block);
  count(*list.shard, list.is_small, Counters::completing(change_of_any_free(block, free)));
  heap_.merge(block, free);
  heap_.insert_free(block);
}

// ---- Other calls on blocks

void DeviceAllocator::record_stream(Shard& shard, Block* block, Address address, Stream stream,
                                    std::optional<Stream> current_stream) {
  const std::lock_guard device(lock_);
  const std::lock_guard guard(shard.lock);
  if (block->address != address || !block->is(Block::kUsed)) return;
  const Stream own = block->segment()->stream;
  if (stream == own) return;
  pending_.record_use(block, stream, current_stream.value_or(own));
}

std::optional<BlockInfo> DeviceAllocator::info(Shard& shard, const Block* block, Address address) {
  return look_at(shard, [&]() -> std::optional<BlockInfo> {
    if (block->address != address || !block->is(Block::kUsed)) return {};
    const StreamFreeList& list = list_of(block);
    return BlockInfo{.address = address,
                     .size = block->size,
                     .requested = block->requested,
                     .stream = list.stream,
                     .pool = pool_id_of(*list.pool),
                     .device = device_,
                     .from_source = has_source(*list.pool)};
  });
}

std::pair<Address, uint64_t> DeviceAllocator::base_allocation(Shard& shard, const Block* block,
                                                              Address address) {
  return look_at(shard, [&] { return base_allocation_locked(block, address); });
}

std::pair<Address, uint64_t> DeviceAllocator::base_allocation_locked(const Block* block,
                                                                     Address address) {
  require_live(block, address);
  if (block->is(Block::kExpandable)) {
    throw_invalid_state(
        "Tensors allocated with expandable_segments:True cannot be shared between processes. "
        "Consider using "
        "expandable_segments:False in data loading workers via "
        "torch.cuda.memory._set_allocator_settings('expandable_segments:False')");
  }
  return {block->segment()->address, block->segment()->size};
}

ContextId DeviceAllocator::context_of(Shard& shard, const Block* block, Address address) {
  return look_at(shard, [&] {
    return block->address == address && block->is(Block::kUsed) ? block->detail().context
                                                                : kNoContext;
  });
}

uint64_t DeviceAllocator::live_blocks() {
  return static_cast<uint64_t>(stats().allocation.all.current);
}

void DeviceAllocator::free_all() {
  const Hold hold(*this);
  std::vector<Block*> live;
  for (const auto& [address, segment] : heap_.segments()) {
    for (Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUsed)) live.push_back(b);
    }
  }
  if (live.empty()) return;
  driver_.device_synchronize(device_);  // a device that is lost has no work to wait for
  for (Block* block : live) {
    pending_.forget_uses(block);
    free_locked(block, block->segment()->stream, kNoContext);
  }
}

// ---- At an address (R50, R51)

Block* DeviceAllocator::free_block_around(const AllocParams& params, Address address) {
  auto after = heap_.segments().upper_bound(address);
  if (after == heap_.segments().begin()) return nullptr;
  const Segment& segment = *std::prev(after)->second;
  if (segment.pool != params.pool || segment.stream != params.stream) return nullptr;
  for (Block* b = segment.first(); b != &segment.ends; b = b->next) {
    if (address < b->address || address >= b->address + b->size) continue;
    const bool fits =
        b->is_free() && !b->is(Block::kUnmapped) && b->address + b->size - address >= params.size;
    return fits ? b : nullptr;
  }
  return nullptr;
}

Address DeviceAllocator::allocate_at(const Request& request, ContextId context, Hold& hold) {
  free_what_is_ready(request, context);
  AllocParams params = make_params(&hold.entry(), request, context);
  const LabelPin label = owners_.pin_label();
  params.owner.label = label.slot();
  const TenantBooking booking = admit(request, params, hold);
  heap_.reserve(params.shard().supply, 2);
  Block* block = free_block_around(params, request.at);
  if (!block) {
    throw_invalid_state("Could not allocate CUDA storage at exact address " +
                        hex_address(request.at));
  }
  for (const Address address : {block->address, request.at}) shared_.addresses.make_room(address);
  recorder_.set_internal_tag("mallocWithAddress");
  SegmentHeap::remove_free(block);
  // R51: allocates what lies before and frees it again, so history and peaks show both.
  Block* front = nullptr;
  if (block->address < request.at) {
    AllocParams front_params = params;
    front_params.requested = front_params.size = request.at - block->address;
    front = alloc_found_block(block, front_params, true);
    SegmentHeap::remove_free(block);
  }
  block = alloc_found_block(block, params, should_split(params, block));
  if (front) free_locked(front, request.current_stream, kNoContext);
  recorder_.set_internal_tag("");
  return block->address;
}

// ---- Limits, settings, statistics

void DeviceAllocator::set_memory_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw_invalid_argument(format("invalid fraction:%g. Please set within [0, 1].", fraction));
  }
  const Hold hold(*this);
  limit_ = fraction < 1 ? limit_of(fraction, device_memory().total) : kUnlimited;
  settings_changed();
}

// R25: since 2.13 to the nearest, so the fraction that is read back can be above the one that was set.
uint64_t DeviceAllocator::limit_of(double fraction, uint64_t total) const {
  const double bytes = fraction * static_cast<double>(total);
  return static_cast<uint64_t>(rules_.rounds_limit ? std::round(bytes) : std::floor(bytes));
}

DeviceAllocator::DeviceMemory DeviceAllocator::device_memory() {
  DeviceMemory memory{};
  const DriverCode code = driver_.memory_info(device_, &memory.available, &memory.total);
  if (code != kSuccess) throw runtime_error(driver_, code);
  return memory;
}

double DeviceAllocator::memory_fraction() {
  const std::lock_guard guard(lock_);
  if (limit_ == kUnlimited) return 1;
  return static_cast<double>(limit_) / static_cast<double>(device_memory().total);
}

void DeviceAllocator::set_memory_limit(uint64_t bytes) {
  const Hold hold(*this);
  limit_ = bytes;
  settings_changed();
}

uint64_t DeviceAllocator::memory_limit() {
  const std::lock_guard guard(lock_);
  return limit_;
}

void DeviceAllocator::set_settings(Settings&& settings) {
  const Hold hold(*this);
  std::swap(settings_, settings);  // the old ones go when the lock is free
  settings_changed();
}

void DeviceAllocator::set_observers(std::shared_ptr<const ObserverSet> observers) {
  const Hold hold(*this);
  recorder_.set_observers(observers);
  observers_.swap(observers);
}

// See Note [Reading statistics].
Stats DeviceAllocator::stats() {
  const std::lock_guard guard(lock_);
  Stats stats = stats_.stats();
  if (has(kWholeDevice)) {
    flush_only_shard();
    peaks_.write(sums(), &stats);
    return stats;
  }
  const std::lock_guard no_recall(recalling_);
  for (const auto& shard : shards_) shard->account.preserved.prepare();
  peaks_.begin_reading();
  Peaks::Sums preserved{};
  for (const auto& shard : shards_) const auto visit = lock_at(*shard);
  peaks_.end_reading();
  preserved.add(peaks_.preserved_shared());
  for (const auto& shard : shards_) preserved.add(shard->account.preserved.rows());
  peaks_.write(preserved, &stats);
  return stats;
}

Peaks::Sums DeviceAllocator::sums() const {
  CACHALOT_ASSERT(1, lock_.is_held() && has(kWholeDevice));
  Peaks::Sums sums{};
  sums.add(peaks_.shared());
  for (const auto& shard : shards_) sums.add(shard->account.counters.rows());
  return sums;
}

void DeviceAllocator::reset_peak_stats() {
  const Hold hold(*this);
  for (const auto& shard : shards_) peaks_.return_headroom(shard->account);
  peaks_.reset_peak();
  stats_.reset_peaks();
  owners_.reset_peaks();
}

void DeviceAllocator::reset_accumulated_stats() {
  const Hold hold(*this);
  for (const auto& shard : shards_) shard->account.counters.reset_accumulated();
  peaks_.reset_accumulated(sums());
  stats_.reset_accumulated();
  owners_.reset_accumulated();
}

std::vector<std::pair<PoolId, StatArray>> DeviceAllocator::pool_stats() {
  const std::lock_guard guard(lock_);
  return {stats_.pool_rows().begin(), stats_.pool_rows().end()};
}

std::vector<std::pair<PoolId, StatArray>> DeviceAllocator::stats_of_existing_pools() {
  const std::lock_guard guard(lock_);
  std::vector<std::pair<PoolId, StatArray>> rows;
  for (const auto& [id, pool] : pools_.all()) {
    const auto row = stats_.pool_rows().find(id);
    if (row != stats_.pool_rows().end()) rows.emplace_back(*row);
  }
  return rows;
}

std::vector<LabelStats> DeviceAllocator::label_stats() {
  const std::lock_guard guard(lock_);
  return owners_.labels().rows();
}

DeviceTotals DeviceAllocator::totals() {
  const std::lock_guard guard(lock_);
  return totals_of(driver_, device_, stats_.reserved());
}

}  // namespace cachalot
