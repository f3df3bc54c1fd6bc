// SPDX-License-Identifier: MIT OR Apache-2.0
// backend:native: one DeviceAllocator a device, and the blocks that bypass the cache.
//
// It finds the device of a request or the block of an address; the decisions are the device's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alloc/backend/backend.h"
#include "alloc/backend/shared_state.h"
#include "alloc/native/cache_policy.h"
#include "alloc/native/hit_path.h"
#include "alloc/native/memory_sharing.h"
#include "alloc/native/uncached_blocks.h"
#include "base/mutex.h"

namespace cachalot {

class DeviceAllocator;

// Owns the devices, the uncached blocks and the set of observers. Invariant: hits are open exactly
// while requests are cached and no audit needs each call.
class NativeBackend final : public Backend {
 public:
  // Reads the option string. hits: opened while requests are cached and nothing audits them.
  // make_policy: for each device; empty where the reference decides.
  NativeBackend(SharedState& shared, const AllocatorOptions& options, HitPath* hits,
                const MakeCachePolicy& make_policy = {});
  ~NativeBackend() override;

  const char* name() const override { return "native"; }
  DeviceBackend& device(int index) override;

  Address allocate(const Request& request) override;
  void free(Address address, std::optional<Stream> current_stream) override;
  void record_stream(Address address, Stream stream, std::optional<Stream> current_stream) override;
  BlockInfo block(Address address) override;
  std::optional<BlockInfo> find_block(Address address) override;
  std::optional<BlockInfo> find_block_around(Address address) override;
  std::pair<Address, uint64_t> base_allocation(Address address) override;
  ContextId context_of(Address address) override;
  void annotate(Address address, const std::string& text) override;
  uint64_t live_blocks() override;
  void free_all() override;

  void set_caching_enabled(bool enabled) override;
  bool is_caching() const override {
    return caching_from_start_ && caching_switch_.load(std::memory_order_relaxed);
  }
  bool is_caching_enabled() const override;
  void require_possible(const Settings& settings) const override;

  Snapshot snapshot(PoolId pool, bool with_history) override;
  void record_history(const HistoryOptions& options) override;
  uint64_t observe_trace(TraceObserver&& observer, const LiveRowsObserver& live_rows) override;
  uint64_t observe_out_of_memory(OutOfMemoryObserver&& observer) override;
  uint64_t observe_rejection(RejectionObserver&& observer) override;
  uint64_t register_free_memory_callback(FreeMemoryCallback&& callback) override;
  void detach(uint64_t id) override;

  Report report(const Request& request) override;
  void pool_create(int device, PoolId id, PoolOptions&& options) override;
  void pool_set_use_on_oom(int device, PoolId id, bool use) override;
  void pool_set_no_split(int device, PoolId id) override;
  void pool_set_pinned(int device, PoolId id, bool is_pinned) override;
  void pool_set_whole_blocks(int device, PoolId id) override;
  void pin(Address part, uint64_t size) override;
  void unpin(Address part, uint64_t size) override;
  int pool_use_count(int device, PoolId id) override;
  bool pool_has_live(int device, PoolId id, const std::vector<Address>& addresses) override;
  Checkpoint checkpoint_take(int device, PoolId id) override;
  CheckpointChanges checkpoint_apply(int device, const Checkpoint& checkpoint) override;
  uint64_t pool_sleep(int device, const SleepRequest& request) override;
  void pool_wake(int device, PoolId id, Stream stream) override;
  void pool_set_sleep_contents(int device, PoolId id, const std::string& label,
                               SleepContents contents) override;
  SleepStats sleep_stats(int device, PoolId id) override;
  std::vector<ExpandableSegmentRow> expandable_segments(int device) override;
  void start_tenants() override;
  MemorySharing* find_sharing() override { return &sharing_; }

  std::string check() override;
  std::string check_red_zones() override;

 private:
  DeviceAllocator& existing_device(int index) const;  // throws for one that does not exist
  void require_exact_address(const Request& request) const;
  // Throws where the address lies in a block that sleeps with its pool.
  void require_awake(Address address) const;
  std::string first_finding(std::string (DeviceAllocator::*look)());
  template <typename Change>
  void change_observers(Change change, const LiveRowsObserver& live_rows = {});
  // pre: their lock.
  void put_observers(std::shared_ptr<const ObserverSet> observers,
                     const LiveRowsObserver& live_rows);
  template <typename Observer>
  uint64_t attach(Observers<Observer> ObserverSet::*kind, Observer observer,
                  const LiveRowsObserver& live_rows = {});

  SharedState& shared_;
  HitPath& hits_;
  UncachedBlocks uncached_;
  // Made once, so that hits reach them without a lock.
  std::vector<std::unique_ptr<DeviceAllocator>> devices_;
  MemorySharing sharing_;  // what is open goes before the devices do
  // False for good where the environment says so; the switch is the caller's, at any time.
  const bool caching_from_start_;
  const bool audits_every_call_;  // which needs each call to take the general path
  std::atomic<bool> caching_switch_{true};
  // Guards the set as a whole. Calls read the copy that their device has, so they never wait for
  // it.
  Mutex observers_lock_{LockRank::kObservers};
  std::shared_ptr<const ObserverSet> observers_;
  std::atomic<uint64_t> last_observer_{0};
};

}  // namespace cachalot
