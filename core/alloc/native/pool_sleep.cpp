// SPDX-License-Identifier: MIT OR Apache-2.0
// Falling asleep, and the blocks that sleep; pool_wake.cpp has the way back.
#include "alloc/native/pool_sleep.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "alloc/streams/relaxed_capture_mode.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "device/driver_error.h"

namespace cachalot {
namespace {

// Pages that go in one step, during which no other call uses the device. On an H200 a page of 20 MiB takes some 60
// microseconds.
constexpr uint64_t kMostToUnmap = 256 * MiB;
// Buffers are powers of two up to here, so that any cache of pinned memory hands them out again.
constexpr uint64_t kLargestBuffer = 32 * MiB;

// Ends a sleep that has not happened.
class FallingAsleep {
 public:
  FallingAsleep(DeviceState& device, PoolId id) : device_(device), id_(id) {}
  ~FallingAsleep() {
    if (is_done_) return;
    const DeviceLock lock(device_.shards);
    device_.pools.find(id_)->sleep.reset();
  }
  FallingAsleep(const FallingAsleep&) = delete;
  FallingAsleep& operator=(const FallingAsleep&) = delete;

  void done() { is_done_ = true; }

 private:
  DeviceState& device_;
  const PoolId id_;
  bool is_done_ = false;
};

}  // namespace

// By address. A copy, since pages and ranges go while callers walk through it.
std::vector<Segment*> PoolSleep::segments_of(const PrivatePool& pool) const {
  std::vector<Segment*> found;
  for (const auto& [address, segment] : device_.heap.segments())
    if (segment->pool->owner == &pool) found.push_back(segment.get());
  return found;
}

// ---- What can sleep

// A policy moves pages between pools, and a red zone is lost with the pages that it lies on.
void PoolSleep::require_can_sleep(const PrivatePool& pool, const SleepRequest& request) const {
  if (device_.policy) throw_not_supported("pools do not sleep under the serving policy");
  if (device_.shared.debug.red_zones || device_.shared.debug.poison)
    throw_not_supported("pools do not sleep while memory has red zones or poison");
  const std::string name = shown_pool_name(request.pool);
  if (pool.sleep) throw_invalid_state(name + " sleeps already, or is about to, or wakes");
  if (device_.pools.is_routed(request.pool)) throw_invalid_state("requests are routed to " + name);
  if (pool.requests_under_way > 0) throw_invalid_state(name + " has a request under way");
  if (device_.captures.may_be_under_way() || device_.captures.is_capturing(request.stream))
    throw_invalid_state("no pool falls asleep while a capture may be under way");
  if (pool.is_pinned) throw_invalid_state(name + " is pinned");
  for (const Segment* segment : segments_of(pool)) {
    if (!segment->is_expandable())
      throw_not_supported(format("%s has a plain segment of %" PRIu64 " bytes at 0x%" PRIx64
                                 ": only expandable segments come back at their addresses",
                                 name.c_str(), segment->size, segment->address));
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next)
      if (b->is(Block::kShared))
        throw_invalid_state(name + " has a block that is shared with other processes at " +
                            hex_address(b->address));
    if (device_.heap.pins().has_any(segment->address, segment->address + segment->size))
      throw_invalid_state(format("%s has pinned memory in the segment at 0x%" PRIx64, name.c_str(),
                                 segment->address));
  }
}

// The rule stays for all later sleeps.
void PoolSleep::set_contents(PoolId id, const std::string& label, SleepContents contents) {
  if (!has(kLabels)) throw_invalid_state("labels are not tracked (track_labels)");
  if (label.empty()) throw_invalid_argument("the label is empty");
  if (contents == SleepContents::kKeepAll)
    throw_invalid_argument("free memory has no label: a label's contents are kept or discarded");
  const DeviceLock lock(device_.shards);
  device_.pools.existing(id).contents_of_labels[label] = contents;
}

// ---- Contents

// A free block has no label of its own any more, and what waits for streams has been freed by its caller.
bool PoolSleep::keeps(const PrivatePool& pool, const Block* block, SleepContents contents) const {
  if (block->is(Block::kUnmapped)) return false;
  if (!block->is(Block::kUsed)) return contents == SleepContents::kKeepAll;
  if (has(kLabels) && !pool.contents_of_labels.empty()) {
    const auto own =
        pool.contents_of_labels.find(device_.shared.labels.text(block->detail().label));
    if (own != pool.contents_of_labels.end()) return own->second == SleepContents::kKeep;
  }
  return contents != SleepContents::kDiscard;
}

// A page that a block shares with others is taken with it.
template <class Takes>
std::vector<PageRun> PoolSleep::runs_of(const PrivatePool& pool, Takes takes) const {
  std::vector<PageRun> runs;
  for (const Segment* segment : segments_of(pool)) {
    const size_t first = runs.size();
    const uint64_t page = segment->pages->page_size();
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (!takes(b)) continue;
      const uint64_t from = round_down(b->address - segment->address, page);
      const uint64_t to = round_up(b->address + b->size - segment->address, page);
      const PageRun run{segment->address + from, segment->address + to};
      if (runs.size() > first && runs.back().end >= run.begin) {
        runs.back().end = std::max(runs.back().end, run.end);
      } else {
        runs.push_back(run);
      }
    }
  }
  return runs;
}

// The work of all streams, since graphs use memory on streams that its blocks do not name.
void PoolSleep::wait_for_work() {
  uint64_t event = 0;
  DriverCode code = driver().event_create(device_.index, &event);
  if (code != kSuccess) throw runtime_error(driver(), code);
  code = driver().event_record_all(device_.index, event);
  code = code == kDriverNotSupported ? driver().device_synchronize(device_.index)
         : code == kSuccess          ? driver().event_synchronize(device_.index, event)
                                     : code;
  driver().event_destroy(device_.index, event);
  if (code != kSuccess) throw runtime_error(driver(), code);
}

// All copies are queued before the host waits for them. Buffers come before the first copy, so that a lack of pinned
// memory costs no time of the device.
KeptContents PoolSleep::save(const SleepRequest& request, const std::vector<PageRun>& kept) {
  KeptContents contents(request.store, device_.index, request.stream);
  wait_for_work();
  if (kept.empty()) return contents;
  for (const PageRun& run : kept) {
    for (Address at = run.begin; at < run.end;) {
      const uint64_t size = std::min(kLargestBuffer, std::bit_floor(run.end - at));
      contents.add(at, size);
      at += size;
    }
  }
  DriverCode code = kSuccess;
  for (const KeptPart& part : contents.parts()) {
    code = driver().copies()->copy(device_.index, part.buffer, part.address, part.size,
                                   request.stream);
    if (code != kSuccess) break;
  }
  const DriverCode done = driver().stream_synchronize(device_.index, request.stream);
  if (code == kSuccess) code = done;
  if (code != kSuccess) throw runtime_error(driver(), code);
  return contents;
}

// ---- Falling asleep

// The blocks stay handed out until their contents are saved, so that a failure on the way has changed nothing. Frees of
// other threads go on meanwhile: what they free is copied in vain.
uint64_t PoolSleep::sleep(const SleepRequest& request) {
  const ContextId context = device_.recorder.capture_context(ContextLevel::kAll);
  const RelaxedCaptureMode relaxed(driver(), device_.index, true);  // other threads may capture
  std::vector<PageRun> kept;
  begin(request, context, &kept);
  FallingAsleep falling(device_, request.pool);
  KeptContents contents = save(request, kept);
  uint64_t bytes = 0;
  {
    const DeviceLock lock(device_.shards);
    PrivatePool& pool = *device_.pools.find(request.pool);
    device_.pending.synchronize_and_free_events(context, request.stream, &pool);
    pool.sleep->runs = runs_of(pool, [](const Block* b) { return !b->is(Block::kUnmapped); });
    note_and_free_blocks(pool, context);
    pool.sleep->kept = std::move(contents);
    pool.sleep->keeps_free_memory = request.contents == SleepContents::kKeepAll;
    bytes = pool.sleep->bytes();
    device_.pools.sleep_counts().sleeps++;
  }
  falling.done();
  unmap_all(request.pool, context);
  settle(request.pool);
  return bytes;
}

// From here on no new block of the pool is handed out. What waits for streams becomes free first: a block that waits
// could not be handed out again.
void PoolSleep::begin(const SleepRequest& request, ContextId context, std::vector<PageRun>* kept) {
  const DeviceLock lock(device_.shards);
  PrivatePool& pool = device_.pools.existing(request.pool);
  require_can_sleep(pool, request);
  device_.pending.synchronize_and_free_events(context, request.stream, &pool);
  if (request.needs_memory && mapped_bytes(pool) == 0)
    throw_invalid_state(shown_pool_name(request.pool) + " has no memory to give");
  *kept = runs_of(pool, [&](const Block* b) { return keeps(pool, b, request.contents); });
  if (!kept->empty() && (driver().copies() == nullptr || !request.store))
    throw_not_supported(std::string("the driver '") + driver().name() +
                        "' has no copies or no pinned memory: contents cannot be kept");
  pool.sleep = std::make_unique<SleepingPool>();
}

// From here on the pool may wake. Its last users and blocks may have gone meanwhile, and then it ends.
void PoolSleep::settle(PoolId id) {
  KeptContents dropped;
  const DeviceLock lock(device_.shards);
  PrivatePool& pool = *device_.pools.find(id);
  pool.sleep->state = State::kAsleep;
  dropped = end_unless_used(pool);
}

// All memory of the host comes before the first free. Labels stay pinned, and tenants cannot end, since the blocks
// come back.
void PoolSleep::note_and_free_blocks(PrivatePool& pool, ContextId context) {
  const std::vector<Block*> used = device_.heap.used_blocks(pool);
  auto& blocks = pool.sleep->blocks;
  for (const Block* block : used) {
    const BlockDetail& detail = block->detail();
    SleepingBlock& noted = blocks[block->address];
    noted = {block->size, block->requested, has(kContexts) ? detail.context : kNoContext, 0, 0};
    if (has(kLabels | kWatched)) noted.label = detail.label;
    if (has(kTenants)) noted.tenant = detail.tenant;
  }
  for (Block* block : used) {
    const SleepingBlock& noted = blocks[block->address];
    device_.owners.fall_asleep(owner_of(noted), noted.size, device_.flags.load());
    device_.pending.forget_uses(block);  // their work is done
    cache_.free(block, device_.assumed_caller(block), context);
  }
}

// For want of memory of the host some pages may stay mapped until the pool wakes.
void PoolSleep::unmap_all(PoolId id, ContextId context) noexcept {
  try {
    while (unmap_some(id, context)) {
    }
  } catch (const std::bad_alloc&) {
    device_.shared.log.warn_once("pages of a pool that sleeps",
                                 "some pages of a pool that sleeps stay mapped: there is no memory "
                                 "of the host to note that they are gone");
  }
}

// What is left of the pool is free, so that pages go from the end of any of its blocks.
bool PoolSleep::unmap_some(PoolId id, ContextId context) {
  const DeviceLock lock(device_.shards);
  for (Segment* segment : segments_of(*device_.pools.find(id))) {
    for (Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUnmapped)) continue;
      memory_.unmap_end(b, kMostToUnmap, context);
      return true;
    }
  }
  return false;
}

// ---- Blocks that sleep

// Its label may go, and its tenant may end.
void PoolSleep::forget(SleepingPool& pool, std::map<Address, SleepingBlock>::iterator block) {
  device_.owners.forget_asleep(owner_of(block->second), block->second.size, device_.flags.load());
  pool.blocks.erase(block);
}

// Few pools sleep, and only errors and frees of blocks that sleep ask.
PrivatePool* PoolSleep::find_pool_of(Address address) const {
  for (const auto& [id, pool] : device_.pools.all()) {
    if (!pool->sleep) continue;
    const auto behind = pool->sleep->blocks.upper_bound(address);
    if (behind == pool->sleep->blocks.begin()) continue;
    const auto& [begin, block] = *std::prev(behind);
    if (address - begin < block.size) return pool.get();
  }
  return nullptr;
}

// Without blocks nothing needs what was kept of them, and without users nothing needs the addresses.
KeptContents PoolSleep::end_unless_used(PrivatePool& pool) {
  if (!pool.sleep || pool.sleep->state != State::kAsleep || !pool.sleep->blocks.empty()) return {};
  if (mapped_bytes(pool) != 0) return {};  // see unmap_all()
  const bool is_used = pool.use_count > 0;
  KeptContents dropped;
  if (!is_used || !pool.sleep->keeps_free_memory) dropped = std::move(pool.sleep->kept);
  if (is_used) return dropped;
  for (const Segment* segment : segments_of(pool)) memory_.remove_range(segment->first());
  pool.sleep.reset();
  for (BlockPool* kind : {&pool.small, &pool.large}) cache_.drop_empty_lists(*kind);
  device_.pools.destroy_if_empty(pool.id);
  return dropped;
}

// What is dropped goes when no lock is held (here and below): the store is another allocator.
bool PoolSleep::free(Address address) {
  KeptContents dropped;
  const DeviceLock lock(device_.shards);
  PrivatePool* const pool = find_pool_of(address);
  if (pool == nullptr) return false;
  const auto block = pool->sleep->blocks.find(address);
  if (block == pool->sleep->blocks.end()) return false;  // the address is within it
  forget(*pool->sleep, block);
  dropped = end_unless_used(*pool);
  return true;
}

// A pool that was released while it slept.
void PoolSleep::end_if_unused(PoolId id) {
  KeptContents dropped;
  const DeviceLock lock(device_.shards);
  if (PrivatePool* const pool = device_.pools.find(id)) dropped = end_unless_used(*pool);
}

// The pools stay asleep, without blocks.
void PoolSleep::free_all() {
  std::vector<KeptContents> dropped;
  const DeviceLock lock(device_.shards);
  for (const auto& [id, pool] : device_.pools.all()) {
    if (!pool->sleep) continue;
    auto& blocks = pool->sleep->blocks;
    while (!blocks.empty()) forget(*pool->sleep, blocks.begin());
    dropped.push_back(std::move(pool->sleep->kept));
  }
}

// For the text of an error. The pool may wake before the caller reads it.
std::optional<PoolId> PoolSleep::pool_of(Address address) {
  const std::lock_guard lock(device_.shards.lock());
  const PrivatePool* const pool = find_pool_of(address);
  return pool == nullptr ? std::nullopt : std::optional(pool->id);
}

// Hits go on meanwhile.
SleepStats PoolSleep::stats(PoolId id) {
  const std::lock_guard lock(device_.shards.lock());
  SleepStats sums;
  const auto add = [&](const PrivatePool& pool) {
    if (!pool.sleep) return;
    sums.pools++;
    sums.blocks += pool.sleep->blocks.size();
    sums.allocated_bytes += pool.sleep->allocated_bytes();
    // While contents are saved, nothing is noted yet.
    if (!pool.sleep->runs.empty()) sums.asleep_bytes += pool.sleep->bytes() - mapped_bytes(pool);
    sums.kept_bytes += pool.sleep->kept.bytes();
    sums.kept_buffers += pool.sleep->kept.parts().size();
  };
  if (id.is_default()) {
    for (const auto& [number, pool] : device_.pools.all()) add(*pool);
    sums.num_sleeps = device_.pools.sleep_counts().sleeps;
    sums.num_wakes = device_.pools.sleep_counts().wakes;
    return sums;
  }
  const PrivatePool& pool = device_.pools.existing(id);
  add(pool);
  if (pool.sleep) sums.state = static_cast<int32_t>(pool.sleep->state);
  return sums;
}

// More than 0 while pages go or come.
uint64_t PoolSleep::mapped_bytes(const PrivatePool& pool) const {
  uint64_t sum = 0;
  for (const Segment* segment : segments_of(pool)) sum += segment->pages->mapped_bytes();
  return sum;
}

}  // namespace cachalot
