// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/miss.h"

#include <optional>

#include "alloc/native/expandable_memory.h"
#include "alloc/native/failed_request.h"
#include "alloc/native/plain_segments.h"
#include "alloc/native/segment_limits.h"
#include "alloc/streams/relaxed_capture_mode.h"
#include "alloc/tenants/tenant_pressure.h"

namespace cachalot {

namespace {

// Keeps the pool of a request: a release of the cache would destroy it once its use count is 0 (U21).
class KeptPool {
 public:
  explicit KeptPool(PrivatePool* pool) : pool_(pool) {
    if (pool_) pool_->requests_under_way++;
  }
  ~KeptPool() {
    if (pool_) pool_->requests_under_way--;
  }
  KeptPool(const KeptPool&) = delete;
  KeptPool& operator=(const KeptPool&) = delete;

 private:
  PrivatePool* pool_;
};

}  // namespace

// Tenants come last: their memory is in use, while the ladder only takes what is free.
Block* Miss::obtain() {
  Block* block = climb_ladder();
  if (!block && has(kTenants)) block = ask_tenants();
  if (block) return block;
  FailedRequest failed(device_, params_, lock_);
  if (params_.rejected) failed.throw_rejected();
  failed.throw_out_of_memory();
}

// The steps in their order; the first that gives a block ends the ladder. Null: none does. The shard is
// enough up to the first answer of the driver: most misses end there, and leave other shards alone.
Block* Miss::climb_ladder() {
  params_.segment_size = cache_.segment_size_for(params_);
  if (Block* block = run_free_memory_callbacks()) return block;
  if (device_.policy && params_.expandable) return obtain_by_policy();
  device_.heap.reserve(params_.shard().supply, 2);
  // [core 8.7] Before the driver is asked for more, so that the limit of the collection is kept.
  if (has(kAging)) release_.garbage_collect_cached_blocks(params_.context);
  if (has_whole_blocks(*params_.pool)) {
    CACHALOT_ASSERT(1, lock_.is_whole());  // since requests are routed to the pool
    release_.keep_bound_of_whole_blocks(params_);
  }
  if (Block* block = alloc_block(Attempt::kFirst)) return block;
  if (Block* block = lock_whole_and_search()) return block;
  // A rejected first attempt ends the request, although the cache may have what it needs (R31, U16).
  const bool may_release = !params_.rejected || rules().mend_rejection;
  if (may_release) {
    Block* block = nullptr;
    if (try_mempool_fallback(&block)) return block;
    if (has_whole_blocks(*params_.pool) && release_.release_whole_blocks(params_, 0)) {
      if ((block = alloc_block(Attempt::kFirst))) return block;
    }
    // No search follows a release: what it frees serves later requests only [core 8.10].
    if (settings().max_split_size != kUnlimited &&
        release_.release_available_cached_blocks(params_)) {
      if (mend_search(&block)) return block;
      if ((block = alloc_block(Attempt::kFirst))) return block;
    }
    if (!device_.captures.is_capture_context(params_.current_stream) && !never_fits()) {
      const KeptPool kept(params_.pool->owner);
      release_.release_cached_blocks({}, params_.current_stream, params_.context);
      if (mend_search(&block)) return block;
      if ((block = alloc_block(Attempt::kRetry))) return block;
    }
  }
  return nullptr;
}

Block* Miss::obtain_by_policy() {
  if (Block* block = lock_whole_and_search()) return block;
  require_no_pending_error();
  return device_.policy->find_memory(params_);
}

// Searches before it asks the driver: a tenant frees into the cache. Null: no tenant is left to ask.
Block* Miss::ask_tenants() {
  TenantPressure pressure(*device_.shared.tenants, device_.index, params_.owner.tenant);
  while (true) {
    bool freed = false;
    {
      const DeviceUnlock unlocked(lock_, *params_.entry, params_.pool->owner);
      freed = pressure.ask_next(PressureReason::kDevice, params_.size);
    }
    if (!freed) break;
    device_.heap.reserve(params_.shard().supply, 1);
    // The memory that a tenant freed may let the driver be asked this time (R31).
    params_.rejected = false;
    if (Block* block = cache_.get_free_block(params_)) return block;
    if (Block* block = climb_ladder()) return block;
  }
  device_.owners.tenants().count_refusal(params_.owner.tenant);
  return nullptr;
}

// Releases need the whole device. Locking it unlocks the shard for a moment, in which another thread may
// have freed a block that fits. Null: it was locked already, or no block fits.
Block* Miss::lock_whole_and_search() {
  if (lock_.is_whole()) return nullptr;
  lock_.lock_whole();
  device_.heap.reserve(params_.shard().supply, 1);
  return cache_.get_free_block(params_);
}

// U9: a release can merge free blocks, and waits for events, so a block may fit now.
bool Miss::mend_search(Block** block) {
  if (!rules().mend_search_after_release) return false;
  device_.heap.reserve(params_.shard().supply, 1);
  *block = cache_.get_free_block(params_);
  return *block != nullptr;
}

// U17: releasing the cache cannot help a request that no segment can hold.
bool Miss::never_fits() {
  if (!rules().mend_reserve || !params_.expandable) return false;
  uint64_t total = 0;
  return driver().total_memory(device_.index, &total) == kSuccess &&
         params_.size > total + total / 8;
}

// [core 8.6] The callbacks run without a lock, since they free blocks of this device. So the search
// is made anew.
Block* Miss::run_free_memory_callbacks() {
  if (device_.recorder.observers()->free_memory.empty()) return nullptr;
  bool freed = false;
  {
    auto observers = device_.recorder.observers();
    const DeviceUnlock unlocked(lock_, *params_.entry, params_.pool->owner);
    // Goes while the device is unlocked: destructors of the last reference may call back.
    const auto held = std::move(observers);
    for (const auto& [id, callback] : held->free_memory) {
      if (callback(device_.index, params_.segment_size)) freed = true;
    }
  }
  if (!freed) return nullptr;
  device_.heap.reserve(params_.shard().supply, 1);
  return cache_.get_free_block(params_);
}

// An error that earlier calls of the program left pending ends a miss, but not a hit (P35).
void Miss::require_no_pending_error() {
  const DriverCode pending = driver().take_pending_error(device_.index);
  if (pending != kSuccess) throw runtime_error(driver(), pending);
}

// [core 8.9] Null: out of memory, refused by the limit, or rejected.
Block* Miss::alloc_block(Attempt attempt) {
  require_no_pending_error();
  if (attempt == Attempt::kRetry)
    device_.stats.count_retry();  // also if the limit then refuses (P9)
  const SegmentLimits limits(device_);
  // The limit is looked at before the driver is asked, in this order: a request that the limit
  // refuses is not rejected (R31).
  if (limits.is_over_limit(params_)) return nullptr;
  if (limits.is_rejected(params_)) {
    device_.stats.count_rejection();
    params_.rejected = true;
    params_.reserved_when_rejected = device_.stats.reserved();
    return nullptr;
  }
  if (params_.expandable) {
    const LongHold long_hold(device_.shards, lock_.shard());
    return ExpandableMemory(device_).try_allocate_expandable_block(params_);
  }
  const std::optional<Address> address = ask_driver();
  return address ? PlainSegments(device_).add(params_, *address) : nullptr;
}

// Nothing: out of memory. Unlocks what the settings allow to unlock, since the driver takes long.
std::optional<Address> Miss::ask_driver() {
  // A capture of the current stream does not allow the call, which is no part of the graph.
  const RelaxedCaptureMode relaxed(driver(), device_.index,
                                   device_.captures.is_capturing(params_.current_stream));
  // One of the two: either other calls may use the device meanwhile, or at least no recall waits
  // for this shard.
  std::optional<DeviceUnlock> unlocked;
  std::optional<LongHold> long_hold;
  if (settings().release_lock_on_cudamalloc) {
    unlocked.emplace(lock_, *params_.entry, params_.pool->owner);
  } else {
    long_hold.emplace(device_.shards, lock_.shard());
  }
  return PlainSegments(device_).ask_driver(params_);
}

// [core 17.7] A cached block of a pool that opted in serves a request of the default pools. The steps
// are the reference's, with their effects on use counts and errors (U5, U6).
bool Miss::try_mempool_fallback(Block** block) {
  // A request of a private pool has no other pool to fall back to.
  if (params_.pool->owner) return false;
  device_.heap.reserve(params_.shard().supply, 1);
  for (const PoolId id : device_.pools.used_on_oom()) {
    const PrivatePool* known = device_.pools.find(id);
    // A pool that sleeps or wakes has no free memory to give.
    if (known && known->sleep) continue;
    const bool is_routed = device_.pools.is_routed(id);
    if (rules().mend_fallback_errors && (is_routed || (known && known->use_count == 0))) continue;
    device_.pools.create_or_join(id, nullptr);
    if (is_routed) throw_invalid_state("beginAllocateToPool: already recording to mempool_id");
    PrivatePool* pool = device_.pools.find(id);
    AllocParams fallback = params_;
    fallback.pool = &pool->of_kind(params_.pool->is_small);
    fallback.expandable = params_.expandable && rules().mend_fallback_expandable;
    *block = cache_.get_free_block(fallback);
    end_fallback(id, fallback, block);
    if (*block) {
      params_ = fallback;
      return true;
    }
  }
  return false;
}

// Undoes the begin of the routing: its end completes deferred frees (R20), and the use count falls
// again. A completed free may merge with the found block, so the block lies in its free set meanwhile;
// the reference fails an assertion there (U20).
void Miss::end_fallback(PoolId id, AllocParams& fallback, Block** found) {
  Block* const block = *found;
  const Address address = block ? block->address : 0;
  const uint64_t size = block ? block->size : 0;
  if (block) device_.heap.insert_free(block);
  if (rules().completes_frees_at_routing_end && settings().graph_capture_record_stream_reuse)
    device_.pending.flush_deferred_frees(fallback.context, id);
  device_.pools.release(id);
  if (!block) return;
  if (block->address == address && block->size == size) {
    SegmentHeap::remove_free(block);
  } else {
    device_.shared.log.differ("U20", "searched again, since the block that was found has merged");
    *found = cache_.get_free_block(fallback);
  }
}

}  // namespace cachalot
