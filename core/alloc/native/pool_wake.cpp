// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of a wake, in their order; what they leave when they fail stands behind them.
#include "alloc/native/pool_wake.h"

#include <algorithm>
#include <utility>

#include "alloc/native/admission.h"
#include "alloc/native/cache_release.h"
#include "alloc/native/failed_request.h"
#include "alloc/native/segment_limits.h"
#include "alloc/streams/relaxed_capture_mode.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "device/driver_error.h"

namespace cachalot {
namespace {

// Pages that come in one step, during which no other call uses the device. Copies begin behind the first one, so it is
// small.
constexpr uint64_t kMostToMap = 128 * MiB;

}  // namespace

// The context is captured before any lock is taken, since that may run the caller's code.
PoolWake::PoolWake(DeviceState& device, PoolId id, Stream stream)
    : DeviceOperation(device),
      id_(id),
      stream_(stream),
      context_(device.recorder.capture_context(ContextLevel::kState)),
      memory_(device),
      cache_(device) {}

// Other threads may capture meanwhile, and the calls are no part of their graphs.
void PoolWake::run() {
  const RelaxedCaptureMode relaxed(driver(), device_.index, true);
  begin();
  KeptContents kept;  // goes when no lock is held
  try {
    book_for_tenants();
    if (!map_everything()) throw_out_of_memory();
    kept = hand_out();
  } catch (...) {
    give_back();
    PoolSleep(device_).settle(id_);
    throw;
  }
}

// Memory could be obtained during a capture of another stream, but copies would wait for nothing of the graph.
void PoolWake::begin() {
  const DeviceLock lock(device_.shards);
  PrivatePool& pool = device_.pools.existing(id_);
  const std::string name = shown_pool_name(id_);
  if (!pool.sleep) throw_invalid_state(name + " does not sleep");
  if (pool.sleep->state != State::kAsleep)
    throw_invalid_state(name + (pool.sleep->state == State::kWaking ? " wakes already"
                                                                    : " is about to fall asleep"));
  if (device_.captures.may_be_under_way() || device_.captures.is_capturing(stream_))
    throw_invalid_state("no pool wakes while a capture may be under way");
  pool.sleep->state = State::kWaking;
  pool_ = &pool;
}

// ---- What tenants are granted

// Before any page is asked for, since a tenant's own limit needs no driver. A tenant whose blocks sleep cannot end, so
// the slots stay theirs.
void PoolWake::book_for_tenants() {
  if (!has(kTenants)) return;
  std::map<TenantLedger::Slot, uint64_t> bytes;
  {
    const DeviceLock lock(device_.shards);
    for (const auto& [address, block] : sleeping().blocks) bytes[block.tenant] += block.size;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  // Memory is asked for in the name of the tenant that has most of the pool.
  pressure_.emplace(*device_.shared.tenants, device_.index, most == bytes.end() ? 0 : most->first);
  bookings_.reserve(bytes.size());
  for (const auto& [slot, sum] : bytes) book(slot, sum);
}

// As for a request, but nothing is locked meanwhile.
void PoolWake::book(TenantLedger::Slot slot, uint64_t bytes) {
  TenantLedger& ledger = device_.owners.tenants();
  TenantPressure pressure(*device_.shared.tenants, device_.index, slot);
  const auto refusal = book_or_ask(
      ledger, slot, bytes,
      [&] {
        const DeviceLock lock(device_.shards);
        update_capacity(device_);
      },
      [&](PressureReason reason, uint64_t missing) { return pressure.ask_next(reason, missing); });
  if (refusal) {
    ledger.count_refusal(slot);
    DeviceLock lock(device_.shards);
    const AllocParams params = params_of_pool(bytes);
    FailedRequest(device_, params, lock)
        .throw_refused(device_.shared.tenants->refusal_text(slot, device_.index, bytes, *refusal));
  }
  bookings_.emplace_back(&ledger, slot, bytes);
}

// ---- Memory

// Pages of a segment have one size, and a step has whole ones.
std::vector<PageRun> PoolWake::steps() const {
  const DeviceLock lock(device_.shards);
  std::vector<PageRun> steps;
  for (const PageRun& run : sleeping().runs) {
    const uint64_t step = memory_.whole_pages_of(kMostToMap, run.begin);
    for (Address at = run.begin; at < run.end; at += step)
      steps.push_back({at, std::min(run.end, at + step)});
  }
  return steps;
}

// Copies are queued behind each step, so that the device copies while the host maps.
bool PoolWake::map_everything() {
  for (const PageRun& step : steps()) {
    while (!map_step(step)) {
      if (!make_room(step.size())) return false;
    }
    mapped_ += step.size();
    queue_copies(step.end);
  }
  return true;
}

// The limit is looked at before the driver is asked, as in a request.
bool PoolWake::map_step(const PageRun& step) {
  const DeviceLock lock(device_.shards);
  if (SegmentLimits(device_).is_over_limit(params_of_pool(step.size()))) return false;
  return memory_.map_range(step.begin, step.end, context_);
}

// The order of a miss: what is cached goes first, then tenants are asked, and each answer is worth another try.
bool PoolWake::make_room(uint64_t missing) {
  if (!has_released_caches_) {
    has_released_caches_ = true;
    release_caches();
    return true;
  }
  if (!pressure_ || !pressure_->ask_next(PressureReason::kDevice, missing)) return false;
  release_caches();  // a tenant frees into the cache
  return true;
}

// Within a capture nothing is given back.
void PoolWake::release_caches() {
  const DeviceLock lock(device_.shards);
  if (!device_.captures.may_be_under_way())
    CacheRelease(device_).release_cached_blocks({}, stream_, context_);
}

// Of the parts whose pages are there, up to `end`, in the order of addresses, as the steps are. The host does not wait
// for them.
void PoolWake::queue_copies(Address end) {
  // Nothing else changes what a pool that wakes has kept.
  const std::vector<KeptPart>& parts = sleeping().kept.parts();
  for (; copied_ < parts.size() && parts[copied_].address + parts[copied_].size <= end; copied_++) {
    const KeptPart& part = parts[copied_];
    const DriverCode code =
        driver().copies()->copy(device_.index, part.address, part.buffer, part.size, stream_);
    if (code != kSuccess) throw runtime_error(driver(), code);
  }
}

// Where it cannot give everything back, for want of memory of the host, the pages that are left serve the next
// attempt.
void PoolWake::give_back() noexcept {
  if (copied_ > 0) driver().stream_synchronize(device_.index, stream_);
  copied_ = 0;
  PoolSleep(device_).unmap_all(id_, context_);
}

// In the form of a failed request, so that observers, dumps and statistics see it.
void PoolWake::throw_out_of_memory() {
  give_back();  // first, so that the numbers are those of a pool that sleeps
  DeviceLock lock(device_.shards);
  const uint64_t needed = sleeping().bytes();
  uint64_t available = 0;
  uint64_t total = 0;
  driver().memory_info(device_.index, &available, &total);
  std::string text = format(
      "CUDA out of memory. To wake, %s on GPU %d needs %s, and %s could be had: %s of %s are "
      "free, and %s are reserved by cachalot",
      shown_pool_name(id_).c_str(), device_.index, format_size(needed).c_str(),
      format_size(mapped_).c_str(), format_size(available).c_str(), format_size(total).c_str(),
      format_size(device_.stats.reserved()).c_str());
  if (limit() != kUnlimited) text += ", whose limit is " + format_size(limit());
  const AllocParams params = params_of_pool(needed);
  FailedRequest(device_, params, lock).throw_refused(text + ". The pool sleeps on.");
}

// ---- Blocks

// As of a request, for those who are told that it has failed.
AllocParams PoolWake::params_of_pool(uint64_t bytes) const {
  AllocParams params{};
  params.requested = params.size = params.segment_size = bytes;
  params.stream = params.current_stream = stream_;
  params.pool = &pool_->large;
  params.expandable = true;
  params.context = context_;
  return params;
}

// The ranges of a pool that sleeps stay.
const Segment& PoolWake::segment_of(const PageRun& run) const {
  return *device_.heap.segment_in(run.begin, run.size());
}

// Each block may leave a free one before it and one behind it.
void PoolWake::reserve_for(const PageRun& run) {
  StreamFreeList& list = *segment_of(run).list;
  uint32_t objects = 0;
  const auto& blocks = sleeping().blocks;
  for (auto b = blocks.lower_bound(run.begin); b != blocks.end() && b->first < run.end; ++b) {
    device_.shared.addresses.make_room(b->first);
    objects += 2;
  }
  objects_[list.supply] += objects;
}

// All of the run is one free block, which the blocks are cut from by address.
void PoolWake::hand_out_run(const PageRun& run) {
  const Segment& segment = segment_of(run);
  Block* rest = device_.heap.block_around(run.begin);
  auto& blocks = sleeping().blocks;
  auto b = blocks.lower_bound(run.begin);
  while (b != blocks.end() && b->first < run.end) {
    const auto& [address, noted] = *b;
    SegmentHeap::remove_free(rest);
    if (rest->address < address)
      device_.heap.insert_free(
          SegmentHeap::split_front(*segment.list->supply, rest, address - rest->address));
    const AllocParams params = params_of(segment, noted);
    const bool splits = rest->size > noted.size;
    Block* const block = cache_.alloc_found_block(rest, params, splits);
    CACHALOT_ASSERT(1, block != nullptr && block->address == address);
    if (!splits) rest = block->next;
    device_.owners.forget_asleep(owner_of(noted), noted.size, device_.flags.load());
    b = blocks.erase(b);
  }
}

// The request that the block was handed out for.
AllocParams PoolWake::params_of(const Segment& segment, const SleepingBlock& block) const {
  AllocParams params{};
  params.requested = block.requested;
  params.size = block.size;
  params.stream = params.current_stream = segment.stream;
  params.entry = segment.list->entry;
  params.pool = segment.pool;
  params.expandable = true;
  params.context = block.context;
  params.owner = owner_of(block);
  return params;
}

// What can fail comes first.
KeptContents PoolWake::hand_out() {
  const DeviceLock lock(device_.shards);
  SleepingPool& pool = sleeping();
  for (const PageRun& run : pool.runs) reserve_for(run);
  for (const auto& [supply, count] : objects_) device_.heap.reserve(*supply, count);
  for (const PageRun& run : pool.runs) hand_out_run(run);
  KeptContents kept = std::move(pool.kept);
  kept.set_stream(stream_);
  pool_->sleep.reset();
  device_.pools.sleep_counts().wakes++;
  return kept;
}

}  // namespace cachalot
