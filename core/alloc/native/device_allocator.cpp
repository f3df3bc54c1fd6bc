// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/device_allocator.h"

#include <algorithm>
#include <mutex>

#include "alloc/native/admission.h"
#include "alloc/native/auditor.h"
#include "alloc/native/cache_release.h"
#include "alloc/native/general_path.h"
#include "alloc/native/pool_sleep.h"
#include "alloc/native/report_taker.h"
#include "alloc/native/segment_limits.h"
#include "alloc/native/snapshot_taker.h"
#include "alloc/native/trim.h"
#include "alloc/shards/device_lock.h"
#include "base/text.h"
#include "device/driver_error.h"

namespace cachalot {

DeviceAllocator::DeviceAllocator(SharedState& shared, int device,
                                 const MakeCachePolicy& make_policy)
    : state_(shared, device, this, make_policy) {
  const double fraction = shared.settings.current().per_process_memory_fraction;
  if (fraction < 1) set_memory_fraction(fraction);
  const DeviceLock lock(state_.shards);
  if (shared.debug.any()) {
    state_.watch = std::make_unique<MemoryWatch>(shared.driver, state_.captures, shared.debug,
                                                 device, shared.labels, shared.log);
    state_.flags.put(kWatched, true);
  }
  state_.flags.put(kLabels, shared.track_labels);
}

DeviceAllocator::~DeviceAllocator() { CacheRelease(state_).give_everything_back(); }

// ---- Blocks

Address DeviceAllocator::allocate(const Request& request) {
  return GeneralPath(state_).allocate(request);
}

bool DeviceAllocator::free(Shard& shard, Block* block, Address address,
                           std::optional<Stream> current_stream) {
  return GeneralPath(state_).free(shard, block, address, current_stream);
}

bool DeviceAllocator::record_stream(Shard& shard, Block* block, Address address, Stream stream,
                                    std::optional<Stream> current_stream) {
  const std::lock_guard device(state_.shards.lock());
  const std::lock_guard guard(shard.lock);
  if (!block->is_live_at(address)) return false;
  // None: it has ended, and another one may have its handle by now.
  const std::optional<Stream> own = state_.assumed_caller(block);
  // The own stream orders the free anyway [core 12.1]; all streams together order nothing.
  if (stream == own && stream != kAllStreams) return true;
  state_.pending.record_use(block, stream, current_stream ? current_stream : own);
  return true;
}

std::optional<BlockInfo> DeviceAllocator::info(Shard& shard, const Block* block, Address address,
                                               Reach reach) {
  const auto look = [&]() -> std::optional<BlockInfo> {
    const bool is_meant =
        reach == Reach::kBegin ? block->is_live_at(address) : block->is_live_around(address);
    if (!is_meant) return {};
    const StreamFreeList& list = list_of(block);
    return BlockInfo{.address = block->address,
                     .size = block->size,
                     .requested = block->requested,
                     .stream = state_.stream_of(block),
                     .pool = pool_id_of(*list.pool),
                     .device = state_.index,
                     .from_source = has_source(*list.pool)};
  };
  if (!state_.flags.has(kServing)) return state_.shards.look_at(shard, look);
  const DeviceLock lock(state_.shards);  // the policy knows whose a lent block is
  return look();
}

std::pair<Address, uint64_t> DeviceAllocator::base_allocation(Shard& shard, const Block* block,
                                                              Address address) {
  return state_.shards.look_at(shard, [&]() -> std::pair<Address, uint64_t> {
    if (!block->is_live_at(address)) [[unlikely]]
      throw invalid_pointer(address);
    if (block->is(Block::kExpandable))
      throw_invalid_state(state_.shared.rules.wording().no_driver_allocation);
    return {block->segment()->address, block->segment()->size};
  });
}

// No error for an address that is not live: the question has an empty answer.
ContextId DeviceAllocator::context_of(Shard& shard, const Block* block, Address address) {
  return state_.shards.look_at(
      shard, [&] { return block->is_live_at(address) ? block->detail().context : kNoContext; });
}

void DeviceAllocator::annotate(const Block* block, Address address, const std::string& text) {
  // Before the lock: it may run the caller's code.
  const ContextId context = capture_context(ContextLevel::kAlloc);
  DeviceLock lock(state_.shards);
  if (!block->is_live_at(address)) {
    lock.unlock();
    throw Error(Status::kInvalidArgument, annotation_error(address));
  }
  const StreamFreeList& list = list_of(block);
  state_.recorder.record_annotation(address, block->requested, state_.stream_of(block),
                                    pool_id_of(*list.pool), context, text);
}

uint64_t DeviceAllocator::live_blocks() {
  return static_cast<uint64_t>(stats().allocation.all.current) + PoolSleep(state_).stats({}).blocks;
}

void DeviceAllocator::free_all() {
  GeneralPath(state_).free_all();
  PoolSleep(state_).free_all();
}

// ---- The cache

void DeviceAllocator::empty_cache(PoolId pool, std::optional<Stream> current_stream) {
  const ContextId context = capture_context(ContextLevel::kAll);
  const DeviceLock lock(state_.shards);
  if (!pool.is_default()) state_.pools.remark_if_outlived(pool);
  if (const PrivatePool* const found = state_.pools.find(pool)) require_awake(*found);
  CacheRelease(state_).release_cached_blocks(pool, current_stream, context);
  state_.shared.addresses.shrink();
}

// [core 23.3] Without a number the device's free memory is the least answer.
uint64_t DeviceAllocator::largest_block(uint64_t at_least, Stream) {
  const DeviceLock lock(state_.shards);
  uint64_t largest = at_least;
  if (largest == 0) largest = SegmentLimits(state_).device_memory().available;
  state_.for_each_list([&](const StreamFreeList& list) {
    if (const Block* block = list.free.last()) largest = std::max(largest, block->size);
  });
  return largest;
}

// Does nothing while a capture may be under way: calls of the driver could spoil it.
void DeviceAllocator::trim(const TrimGoal& goal, uint64_t* released) {
  const ContextId context = capture_context(ContextLevel::kAll);
  if (state_.flags.has(kPendingFrees)) {
    const DeviceLock lock(state_.shards);
    if (!state_.captures.may_be_under_way()) state_.pending.process_events(context);
  }
  finish_moves();
  {
    const std::lock_guard guard(state_.shards.lock());
    if (!state_.captures.may_be_under_way()) Trim(state_, goal, context).run(released);
  }
  finish_moves();  // a trim may have waited for their work
}

void DeviceAllocator::finish_moves() {
  if (!state_.policy) return;
  const DeviceLock lock(state_.shards);
  state_.policy->finish_moves(/*may_wait=*/false);
}

bool DeviceAllocator::pin(Address part, uint64_t size) {
  const DeviceLock lock(state_.shards);
  const Segment* const segment = state_.heap.segment_in(part, 1);
  if (!segment) return false;
  if (segment->pool->owner) require_awake(*segment->pool->owner);
  const Block* const block = state_.heap.block_around(part);
  if (!block->is(Block::kUsed) || size > block->size - (part - block->address)) return false;
  const uint64_t page = segment->is_expandable() ? segment->pages->page_size() : segment->size;
  const uint64_t offset = part - segment->address;
  state_.heap.pins().add(part, size, part - offset % page, page);
  return true;
}

bool DeviceAllocator::unpin(Address part, uint64_t size) {
  const DeviceLock lock(state_.shards);
  return state_.heap.pins().remove(part, size);
}

// The reference keeps nothing of a stream that others wait for.
void DeviceAllocator::stream_ended(Stream stream) {
  const DeviceLock lock(state_.shards);
  if (!state_.policy) return;
  if (state_.captures.may_be_under_way())
    throw_invalid_state("the end of a stream cannot be told while a capture may be under way");
  state_.policy->stream_ended(stream);
}

// A driver may end the process at an event whose context has ended, so none is kept.
void DeviceAllocator::release_context() {
  const ContextId context = capture_context(ContextLevel::kAll);
  const DeviceLock lock(state_.shards);
  if (state_.captures.may_be_under_way())
    throw_invalid_state("a context cannot be released while a capture may be under way");
  CacheRelease(state_).release_cached_blocks({}, {}, context);
  state_.shared.addresses.shrink();
  state_.pending.destroy_idle_events();
  if (state_.policy) state_.policy->destroy_events();
  state_.shared.driver.release_context(state_.index);
}

PolicyStats DeviceAllocator::policy_stats() {
  const std::lock_guard guard(state_.shards.lock());
  PolicyStats stats = state_.policy ? state_.policy->stats() : PolicyStats{};
  stats.pinned_bytes = state_.heap.pins().bytes();
  return stats;
}

Report DeviceAllocator::report(const Request& request) {
  const DeviceLock lock(state_.shards);
  return ReportTaker(state_).take(request);
}

// ---- Limits, settings, statistics

void DeviceAllocator::set_memory_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw_invalid_argument(format("invalid fraction:%g. Please set within [0, 1].", fraction));
  }
  const DeviceLock lock(state_.shards);
  // The whole device is no limit, so that its size is not asked for [core 14.1].
  if (fraction == 1) return set_limit(kUnlimited);
  const uint64_t total = SegmentLimits(state_).device_memory().total;
  set_limit(state_.settings.limit_of(fraction, total));
}

double DeviceAllocator::memory_fraction() {
  const std::lock_guard guard(state_.shards.lock());
  const uint64_t limit = state_.settings.limit();
  if (limit == kUnlimited) return 1;
  const uint64_t total = SegmentLimits(state_).device_memory().total;
  return static_cast<double>(limit) / static_cast<double>(total);
}

void DeviceAllocator::set_memory_limit(uint64_t bytes) {
  const DeviceLock lock(state_.shards);
  set_limit(bytes);
}

// pre: the whole device.
void DeviceAllocator::set_limit(uint64_t bytes) {
  state_.settings.set_limit(bytes);
  if (state_.flags.has(kTenants)) state_.owners.tenants().set_limit(bytes);
}

uint64_t DeviceAllocator::memory_limit() {
  const std::lock_guard guard(state_.shards.lock());
  return state_.settings.limit();
}

void DeviceAllocator::set_settings(Settings&& settings) {
  const DeviceLock lock(state_.shards);
  state_.settings.swap(settings);  // the old ones go when the lock is free
}

// The old set goes with the parameter, when the lock is free: it may hold the last reference to the
// caller's objects.
void DeviceAllocator::set_observers(std::shared_ptr<const ObserverSet> observers,
                                    const LiveRowsObserver& live_rows) {
  const DeviceLock lock(state_.shards);
  observers = state_.recorder.set_observers(std::move(observers));
  if (!live_rows) return;
  Snapshot rows;
  SnapshotTaker(state_).add_rows_to(&rows, {});
  live_rows(rows);
}

// See Note [Reading statistics].
Stats DeviceAllocator::stats() {
  const std::lock_guard guard(state_.shards.lock());
  Stats stats = state_.stats.stats();
  state_.shards.read(&stats);
  return stats;
}

// All three count by themselves; the lock makes their resets one moment.
void DeviceAllocator::reset_peak_stats() {
  const DeviceLock lock(state_.shards);
  state_.shards.reset_peaks();
  state_.stats.reset_peaks();
  state_.owners.reset_peaks();
}

void DeviceAllocator::reset_accumulated_stats() {
  const DeviceLock lock(state_.shards);
  state_.shards.reset_accumulated();
  state_.stats.reset_accumulated();
  state_.owners.reset_accumulated();
}

// Slow paths alone move these rows, so the device's lock is enough.
std::vector<std::pair<PoolId, StatArray>> DeviceAllocator::pool_stats() {
  const std::lock_guard guard(state_.shards.lock());
  return {state_.stats.pool_rows().begin(), state_.stats.pool_rows().end()};
}

std::vector<std::pair<PoolId, StatArray>> DeviceAllocator::stats_of_existing_pools() {
  const std::lock_guard guard(state_.shards.lock());
  std::vector<std::pair<PoolId, StatArray>> rows;
  for (const auto& [id, pool] : state_.pools.all()) {
    const auto row = state_.stats.pool_rows().find(id);
    if (row != state_.stats.pool_rows().end()) rows.emplace_back(*row);
  }
  return rows;
}

std::vector<LabelStats> DeviceAllocator::label_stats() {
  const std::lock_guard guard(state_.shards.lock());
  return state_.owners.labels().rows();
}

DeviceTotals DeviceAllocator::totals() {
  const std::lock_guard guard(state_.shards.lock());
  return totals_of(state_.shared.driver, state_.index, state_.stats.reserved());
}

// ---- History and snapshots

void DeviceAllocator::record_history(const HistoryOptions& options, uint32_t skipped_actions) {
  const DeviceLock lock(state_.shards);
  state_.recorder.set_options(options, skipped_actions);
}

void DeviceAllocator::skip_actions(bool recording, uint32_t skipped_actions) {
  const DeviceLock lock(state_.shards);
  state_.recorder.skip_actions(recording, skipped_actions);
}

std::vector<TraceEntry> DeviceAllocator::history() {
  const std::lock_guard guard(state_.shards.lock());
  return state_.recorder.entries();
}

void DeviceAllocator::add_to_snapshot(Snapshot* snapshot, PoolId pool) {
  const std::lock_guard guard(state_.shards.lock());
  SnapshotTaker(state_).add_to(snapshot, pool);
}

// ---- Pools [core 17], capture marks (R10)

void DeviceAllocator::pool_begin(PoolId id, PoolFilter filter) {
  const DeviceLock lock(state_.shards);
  state_.pools.begin_routing(id, std::move(filter));
}

void DeviceAllocator::pool_end(PoolId id, std::optional<Stream>) {
  const ContextId context = capture_context(ContextLevel::kAll);
  DeviceLock lock(state_.shards);
  // First, as in the reference: the call completes frees also where no routing is to be ended (R20).
  if (state_.settings.settings().graph_capture_record_stream_reuse) {
    state_.pending.forget_captures_of(id);
    if (state_.shared.rules.completes_frees_at_routing_end)
      state_.pending.flush_deferred_frees(context, id);
  }
  const PoolRoute ended = state_.pools.end_routing(id);  // destroyed after the lock is released
  lock.unlock();
}

void DeviceAllocator::pool_release(PoolId id) {
  {
    const DeviceLock lock(state_.shards);
    state_.pools.release(id);
  }
  PoolSleep(state_).end_if_unused(id);
}

void DeviceAllocator::capture_begin() {
  const DeviceLock lock(state_.shards);
  state_.captures.begin();
}

void DeviceAllocator::capture_end() {
  const DeviceLock lock(state_.shards);
  state_.captures.end();
}

// ---- Tenants

// The flag is looked at again under the lock: two threads may make the first two tenants.
void DeviceAllocator::start_tenants() {
  if (state_.flags.has(kTenants)) return;  // they never stop
  const DeviceLock lock(state_.shards);
  if (!state_.flags.has(kTenants)) cachalot::start_tenants(state_);
}

// ---- Expandable segments

// A second time the reference calls the runtime, too, but sets no access [core 23.4].
void DeviceAllocator::give_peer_access(int peer) {
  const DeviceLock lock(state_.shards);
  Driver& driver = state_.shared.driver;
  const DriverCode code = driver.enable_peer(peer, state_.index);
  if (code != kSuccess) throw runtime_error(driver, code);
  state_.expandable.add_peer(peer);
}

bool DeviceAllocator::gives_access_to(int peer) {
  const std::lock_guard guard(state_.shards.lock());
  const std::vector<int>& peers = state_.expandable.peers();
  return std::find(peers.begin(), peers.end(), peer) != peers.end();
}

bool DeviceAllocator::has_expandable_segments() {
  const std::lock_guard guard(state_.shards.lock());
  return state_.expandable.totals().second != 0;
}

std::vector<ExpandableSegmentRow> DeviceAllocator::expandable_segments() {
  const std::lock_guard guard(state_.shards.lock());
  return state_.expandable.rows();
}

std::pair<uint64_t, uint64_t> DeviceAllocator::expandable_totals() {
  const std::lock_guard guard(state_.shards.lock());
  return state_.expandable.totals();
}

// ---- The auditor

std::string DeviceAllocator::check() {
  const DeviceLock lock(state_.shards);
  return Auditor(state_).check();
}

std::string DeviceAllocator::check_red_zones() {
  const DeviceLock lock(state_.shards);
  return Auditor(state_).check_red_zones();
}

}  // namespace cachalot
