// SPDX-License-Identifier: MIT OR Apache-2.0
// A miss: the ladder from callbacks over the driver and releases to the last attempt
// [core 8.6 to 8.11].
#include "alloc/native/block_steps.h"
#include "alloc/native/hold.h"
#include "alloc/streams/relaxed_capture_mode.h"

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

// Never returns null.
Block* DeviceAllocator::obtain_block(AllocParams& params, Hold& hold) {
  Block* block = climb_ladder(params, hold);
  if (!block && has(kTenants)) block = ask_tenants(params, hold);
  if (block) return block;
  if (params.rejected) throw_rejected(params, hold);
  throw_out_of_memory(params, hold);
}

// The steps in their order; the first that gives a block ends the ladder. Null: none does. The shard is
// enough up to the first answer of the driver: most misses end there, and leave other shards alone.
Block* DeviceAllocator::climb_ladder(AllocParams& params, Hold& hold) {
  params.segment_size = segment_size_for(params.size);
  if (Block* block = run_free_memory_callbacks(params, hold)) return block;
  heap_.reserve(params.shard().supply, 2);
  if (has(kAging)) garbage_collect_cached_blocks(params.context);
  if (Block* block = alloc_block(params, Obtain::kFirst, hold)) return block;
  if (Block* block = take_all_and_search(params, hold)) return block;
  // A rejected first attempt ends the request, although the cache may have what it needs (R31, U16).
  const bool may_release = !params.rejected || rules_.mend_rejection;
  if (may_release) {
    Block* block = nullptr;
    if (try_mempool_fallback(params, &block)) return block;
    // No search follows a release: what it frees serves later requests only [core 8.10].
    if (settings_.max_split_size != kUnlimited && release_available_cached_blocks(params)) {
      if (mend_search(params, &block)) return block;
      if ((block = alloc_block(params, Obtain::kFirst, hold))) return block;
    }
    if (!captures_.is_capture_context(params.current_stream) && !never_fits(params)) {
      const KeptPool kept(params.pool->owner);
      release_cached_blocks({}, params.current_stream, params.context);
      if (mend_search(params, &block)) return block;
      if ((block = alloc_block(params, Obtain::kRetry, hold))) return block;
    }
  }
  return nullptr;
}

// Searches before it asks the driver: a tenant frees into the cache. Null: no tenant is left to ask.
Block* DeviceAllocator::ask_tenants(AllocParams& params, Hold& hold) {
  TenantPressure pressure(*shared_.tenants, device_, params.owner.tenant);
  while (true) {
    bool freed = false;
    {
      const Unlocked unlocked(hold, *params.entry, params.pool->owner);
      freed = pressure.ask_next(PressureReason::kDevice, params.size);
    }
    if (!freed) break;
    heap_.reserve(params.shard().supply, 1);
    params.rejected = false;
    if (Block* block = get_free_block(params)) return block;
    if (Block* block = climb_ladder(params, hold)) return block;
  }
  tenants().count_refusal(params.owner.tenant);
  return nullptr;
}

// Releases need the whole device. Taking it unlocks the shard for a moment, in which another thread may
// have freed a block that fits. Null: it was taken already, or no block fits.
Block* DeviceAllocator::take_all_and_search(AllocParams& params, Hold& hold) {
  if (hold.is_whole()) return nullptr;
  hold.take_all();
  heap_.reserve(params.shard().supply, 1);
  return get_free_block(params);
}

// U9: a release can merge free blocks, and waits for events, so a block may fit now.
bool DeviceAllocator::mend_search(AllocParams& params, Block** block) {
  if (!rules_.mend_search_after_release) return false;
  heap_.reserve(params.shard().supply, 1);
  *block = get_free_block(params);
  return *block != nullptr;
}

// U17: releasing the cache cannot help a request that no segment can hold.
bool DeviceAllocator::never_fits(const AllocParams& params) {
  if (!rules_.mend_reserve || !params.expandable) return false;
  uint64_t total = 0;
  return driver_.total_memory(device_, &total) == kSuccess && params.size > total + total / 8;
}

Block* DeviceAllocator::run_free_memory_callbacks(AllocParams& params, Hold& hold) {
  if (observers_->free_memory.empty()) return nullptr;
  bool freed = false;
  {
    auto observers = observers_;
    const Unlocked unlocked(hold, *params.entry, params.pool->owner);
    for (const auto& [id, callback] : observers->free_memory) {
      if (callback(device_, params.segment_size)) freed = true;
    }
    observers.reset();  // while unlocked: destructors of the last reference may call back
  }
  if (!freed) return nullptr;
  heap_.reserve(params.shard().supply, 1);
  return get_free_block(params);
}

bool DeviceAllocator::is_over_limit(const AllocParams& params) const {
  return limit_ != kUnlimited && stats_.reserved() + params.segment_size > limit_;
}

// R31: the option's fraction refuses before the driver is asked. It is the option as it is now, not the
// limit that a call has set.
bool DeviceAllocator::is_rejected(const AllocParams& params) const {
  if (!settings_.throw_on_cudamalloc_oom) return false;
  uint64_t available = 0;
  uint64_t total = 0;
  if (driver_.memory_info(device_, &available, &total) != kSuccess) return false;
  const double bytes = settings_.per_process_memory_fraction * static_cast<double>(total);
  return stats_.reserved() + params.segment_size > static_cast<uint64_t>(bytes);
}

// [core 8.9] Null: out of memory, refused by the limit, or rejected.
Block* DeviceAllocator::alloc_block(AllocParams& params, Obtain attempt, Hold& hold) {
  // An error that earlier calls of the program left pending ends a miss, but not a hit (P35).
  if (const DriverCode pending = driver_.take_pending_error(device_); pending != kSuccess) {
    throw runtime_error(driver_, pending);
  }
  if (attempt == Obtain::kRetry) stats_.count_retry();  // also if the limit then refuses (P9)
  if (is_over_limit(params)) return nullptr;
  if (is_rejected(params)) {
    stats_.count_rejection();
    params.rejected = true;
    params.obtained_when_rejected = stats_.reserved();
    return nullptr;
  }
  if (params.expandable) {
    const Away away(*this, hold.shard());
    return try_allocate_expandable_block(params);
  }
  const std::optional<Address> address = ask_driver(params, hold);
  return address ? add_plain_segment(params, *address) : nullptr;
}

// Nothing: out of memory.
std::optional<Address> DeviceAllocator::ask_driver(AllocParams& params, Hold& hold) {
  PrivatePool* const owner = params.pool->owner;
  // A capture of the current stream does not allow the call, which is no part of the graph.
  const RelaxedCaptureMode relaxed(driver_, device_, captures_.is_capturing(params.current_stream));
  std::optional<Unlocked> unlocked;
  std::optional<Away> away;
  if (settings_.release_lock_on_cudamalloc) {
    unlocked.emplace(hold, *params.entry, owner);
  } else {
    away.emplace(*this, hold.shard());
  }
  if (owner && owner->source) {
    const Address address = owner->source->allocate(params.segment_size, device_,
                                                    driver_.user_handle(params.current_stream));
    if (address != 0) return address;
    params.source_gave_null = true;
    return {};
  }
  Address address = 0;
  const DriverCode code = driver_.allocate(device_, params.segment_size, &address);
  if (code == kSuccess) return address;
  driver_.take_pending_error(device_);  // else the program would meet the failure in its next call
  if (code == kDriverOutOfMemory) return {};
  throw runtime_error(driver_, code);
}

Block* DeviceAllocator::add_plain_segment(const AllocParams& params, Address address) {
  BlockPool& pool = *params.pool;
  const auto give_back = [&] {
    give_to_driver(pool, address, params.segment_size, params.current_stream);
  };
  require_new_range(pool, address, params.segment_size, give_back);
  Block* block = nullptr;
  try {
    // While the device was unlocked others may have taken the objects that were reserved.
    heap_.reserve(params.shard().supply, 2);
    StreamFreeList& list = list_for(pool, params.stream);
    shared_.addresses.prepare(address, params.segment_size, pool.is_small);
    shared_.addresses.make_room(address);
    stats_.reserve_pool_row(pool_id_of(pool));
    auto segment = std::make_unique<Segment>();
    segment->address = address;
    segment->size = params.segment_size;
    segment->stream = params.stream;
    segment->source_stream = params.current_stream;
    block = heap_.add_segment(std::move(segment), list);
  } catch (const std::bad_alloc&) {
    give_back();
    throw;
  }
  block->segment()->number = shared_.next_segment_number++;  // a failed call uses none (R2)
  if (has(kContexts)) block->detail().segment_context = params.context;
  if (pool.owner) pool.owner->driver_allocations++;
  stats_.segment_obtained(pool_id_of(pool), pool.is_small, params.segment_size,
                          params.segment_size >= settings_.max_split_size);
  if (MemoryWatch* watch = watch_of(pool))
    watch->came(address, params.segment_size, params.segment_size);
  trace(Action::kSegmentAlloc, address, params.segment_size, params.stream, pool, params.context);
  return block;
}

// [core 17.7] A cached block of a pool that opted in serves a request of the default pools. The steps
// are the reference's, with their effects on use counts and errors (U5, U6).
bool DeviceAllocator::try_mempool_fallback(AllocParams& params, Block** block) {
  if (params.pool->owner) return false;
  heap_.reserve(params.shard().supply, 1);
  for (const PoolId id : pools_.used_on_oom()) {
    const PrivatePool* known = pools_.find(id);
    const bool is_routed = pools_.is_routed(id);
    if (rules_.mend_fallback_errors && (is_routed || (known && known->use_count == 0))) continue;
    pools_.create_or_join(id, nullptr);
    if (is_routed) throw_invalid_state("beginAllocateToPool: already recording to mempool_id");
    PrivatePool* pool = pools_.find(id);
    AllocParams fallback = params;
    fallback.pool = &pool->of_kind(params.pool->is_small);
    fallback.expandable = params.expandable && rules_.mend_fallback_expandable;
    *block = get_free_block(fallback);
    end_fallback(id, fallback, block);
    if (*block) {
      params = fallback;
      return true;
    }
  }
  return false;
}

// Undoes the begin of the routing: its end completes deferred frees (R20), and the use count falls
// again. A completed free may merge with the found block, so the block lies in its free set meanwhile;
// the reference fails an assertion there (U20).
void DeviceAllocator::end_fallback(PoolId id, AllocParams& fallback, Block** found) {
  Block* const block = *found;
  const Address address = block ? block->address : 0;
  const uint64_t size = block ? block->size : 0;
  if (block) heap_.insert_free(block);
  if (rules_.completes_frees_at_routing_end && settings_.graph_capture_record_stream_reuse)
    pending_.flush_deferred_frees(fallback.context, id);
  pools_.release(id);
  if (!block) return;
  if (block->address == address && block->size == size) {
    SegmentHeap::remove_free(block);
  } else {
    shared_.log.differ("U20", "searched again, since the block that was found has merged");
    *found = get_free_block(fallback);
  }
}

}  // namespace cachalot
