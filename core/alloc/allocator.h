// SPDX-License-Identifier: MIT OR Apache-2.0
// The allocator over all devices of a driver. The C interface is a thin layer over it.
//
// It checks arguments, resolves streams, runs the auditor where options ask for it, and calls the
// backend that the option string chose (backend.h), which holds the decisions. State that the
// reference keeps once a process (segment numbers, the fabric trial, reserve classes, warnings
// given) belongs to an allocator here (shared_state.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alloc/backend/allocator_options.h"
#include "alloc/backend/report.h"
#include "alloc/backend/trim.h"
#include "alloc/config/rules.h"
#include "alloc/config/settings.h"
#include "alloc/heap/request.h"
#include "alloc/native/hit_path.h"
#include "alloc/pools/checkpoint.h"
#include "alloc/pools/pool_route.h"
#include "alloc/pools/sleeping_pool.h"
#include "alloc/stats/device_totals.h"
#include "alloc/stats/policy_stats.h"
#include "alloc/stats/stats.h"
#include "alloc/tenants/labels.h"
#include "alloc/trace/contexts.h"
#include "alloc/trace/history.h"
#include "alloc/trace/observers.h"
#include "alloc/trace/snapshot.h"
#include "alloc/trace/trace_recorder.h"
#include "device/device.h"

namespace cachalot {

class Backend;
class BlockExchange;
class CachePolicy;
class Configuration;
class DeviceBackend;
class DeviceState;
class MemorySharing;
class PinnedAllocator;
class SharedState;
class Tenants;
struct Tenant;
struct TenantOptions;

// Every function throws Error; every function but the destructor may be called from any thread at
// any time.
class Allocator {
 public:
  explicit Allocator(const AllocatorOptions& options);
  // With a policy that the caller makes for each device, as tests do that look into one.
  using MakePolicy = std::function<std::unique_ptr<CachePolicy>(DeviceState&)>;
  Allocator(const AllocatorOptions& options, const MakePolicy& make_policy);
  ~Allocator();  // frees what is cached; pre: no live block (see live_blocks, free_all)
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  Driver& driver() const { return *driver_; }
  const Rules& rules() const { return rules_; }
  int device_count() const { return driver_->device_count(); }
  const char* backend_name() const;  // "native" or "cudaMallocAsync"
  const ServingOptions& serving() const;

  // 0 for a request of 0 bytes [core 3.1]. Throws Error(kOutOfMemory) with the numbers of the
  // failure.
  Address allocate(const Request& request);
  Address allocate(uint64_t size, int device, Stream stream);
  // A block that other streams use (record_stream) is reused when their work is done.
  // current_stream: of the call, where the caller knows it; captures are told by it (R10).
  void free(Address address);
  void free(Address address, std::optional<Stream> current_stream);
  const HitPath& hits() const { return hits_; }  // tried first where speed matters
  void record_stream(Address address, Stream stream, std::optional<Stream> current_stream = {});
  // Throw where no live block begins at the address.
  BlockInfo block(Address address);
  // The live block of the cache that begins at the address, or holds it. Nothing of other backends.
  std::optional<BlockInfo> find_block(Address address);
  std::optional<BlockInfo> find_block_around(Address address);
  std::pair<Address, uint64_t> base_allocation(Address address);
  // Handed out and not freed by their callers.
  uint64_t live_blocks();
  void free_all();  // waits for each device that has live blocks, then frees them

  // The default pool: gives back all free memory that no pool in use keeps. Another pool: its
  // memory, once the pool has been released [core 15.2, 15.3].
  void empty_cache(int device, PoolId pool = {}, std::optional<Stream> current_stream = {});
  // Keeps the segment or the pages under a part of a live block until the same part is unpinned as often.
  void pin(Address address, uint64_t size);
  void unpin(Address address, uint64_t size);
  // The caller is about to destroy a stream: no more work comes of it.
  void stream_ended(int device, Stream stream);
  // The caller is about to end a device's context: its cached memory goes, and pinned memory, and the events.
  void release_context(int device);
  // The largest cached block in bytes, but no less than `at_least`; 0 there stands for the free
  // memory of the device [core 23.3].
  uint64_t largest_block(int device, uint64_t at_least, Stream current_stream = 0);
  // Adds to *released as it goes, also before it throws.
  void trim(int device, const TrimGoal& goal, uint64_t* released);
  // False: requests go to the driver and frees back to it. Blocks of the cache stay blocks of the
  // cache.
  void set_caching_enabled(bool enabled);
  bool is_caching_enabled() const;

  // The limit of the bytes that a device may have reserved, as a part of its memory or as a number.
  void set_memory_fraction(int device, double fraction);
  double memory_fraction(int device);
  void set_memory_limit(int device, uint64_t bytes);  // kUnlimited: none
  uint64_t memory_limit(int device);

  // An option string [opt 1]. Options before a faulty one have taken effect when it throws.
  void configure(const std::string& config);
  Settings settings();
  // Changes all or nothing, and no other call changes settings meanwhile. `change` must not call
  // back.
  void change_settings(const std::function<void(Settings&)>& change);
  // Options that the string does not name keep their values.
  void update_config(const std::string& config);

  // Of one moment, without stopping hits.
  Stats stats(int device);
  PolicyStats policy_stats(int device);
  void reset_peak_stats(int device);
  void reset_accumulated_stats(int device);
  // Reserved bytes of each private pool (R40).
  std::vector<std::pair<PoolId, StatArray>> pool_stats(int device);
  // Without the rows that pools left behind.
  std::vector<std::pair<PoolId, StatArray>> stats_of_existing_pools(int device);
  std::vector<LabelStats> label_stats(int device);
  // The default pool: all segments of all devices.
  Snapshot snapshot(PoolId pool, bool with_history);
  // Of size 0: of no request in particular.
  Report report(const Request& request);

  // Begins, changes or ends the recording on all devices.
  void record_history(const HistoryOptions& options);
  ContextId context_of(Address address);
  const ContextSource& contexts() const { return contexts_; }
  void annotate(Address address, const std::string& text);
  // Each returns an id for detach. live_rows: empty, or called for each device in turn.
  uint64_t observe_trace(TraceObserver observer, const LiveRowsObserver& live_rows = {});
  uint64_t observe_out_of_memory(OutOfMemoryObserver observer);
  uint64_t observe_rejection(RejectionObserver observer);
  uint64_t register_free_memory_callback(FreeMemoryCallback callback);
  void detach(uint64_t id);

  // Ids of this allocator, never given twice.
  PoolId new_pool_id(bool for_graph);
  void pool_create(int device, PoolId id, PoolOptions options);
  // Routes the requests that the filter takes to the pool, until pool_end() [core 17.3].
  void pool_begin(int device, PoolId id, PoolFilter filter);
  void pool_end(int device, PoolId id, std::optional<Stream> current_stream = {});
  void pool_release(int device, PoolId id);
  void pool_set_use_on_oom(int device, PoolId id, bool use);
  void pool_set_no_split(int device, PoolId id);
  // How many callers have the pool: creations, joins and routings, less the releases.
  int pool_use_count(int device, PoolId id);
  // Whether the live blocks of the pool are exactly these [core 17.13].
  bool pool_has_live(int device, PoolId id, const std::vector<Address>& addresses);
  // [core 19] The segments of a checkpoint are restored one after another.
  Checkpoint checkpoint_take(int device, PoolId id);
  CheckpointChanges checkpoint_apply(int device, const Checkpoint& checkpoint);
  // See Note [Pools that sleep] (pools/sleeping_pool.h). Gives the bytes that the driver has back. Throws where the pool
  // cannot sleep, and nothing has changed.
  uint64_t pool_sleep(int device, const SleepRequest& request);
  // Throws Error(kOutOfMemory) where pages are missing or a tenant is not granted its bytes, and the pool sleeps on. The
  // stream copies what was kept, and the host does not wait for it.
  void pool_wake(int device, PoolId id, Stream stream);
  // What becomes of blocks with the label in all later sleeps of the pool. Throws where labels are not tracked.
  void pool_set_sleep_contents(int device, PoolId id, const std::string& label,
                               SleepContents contents);
  SleepStats sleep_stats(int device, PoolId id);  // the default pool: of all
  // The pool falls asleep when the tenant is asked for memory; empty: not any more.
  void tenant_set_sleep(const Tenant& tenant, int device, PoolId id,
                        std::function<uint64_t()> fall_asleep);
  // Keeps the pool's memory where it is, also once it has been released.
  void pool_set_pinned(int device, PoolId id, bool pinned);
  // See Note [Whole blocks] (pools/whole_blocks.h).
  void pool_set_whole_blocks(int device, PoolId id);
  // Marks of a capture (R10).
  void capture_begin(int device);
  void capture_end(int device);

  // Counts tenants from the first one on.
  std::shared_ptr<Tenant> tenant_create(TenantOptions options);
  const std::shared_ptr<Tenants>& tenants() const;
  // As allocate(), for this tenant instead of the thread's.
  Address allocate_for(const Tenant& tenant, uint64_t size, int device, Stream stream);

  // The allocator of pinned host memory, made at its first use. Throws where the driver has no such memory.
  PinnedAllocator& pinned() {
    PinnedAllocator* const used = pinned_if_used();
    return used != nullptr ? *used : make_pinned();
  }
  void require_host_memory() const;
  PinnedAllocator* pinned_if_used() const { return used_pinned_.load(std::memory_order_acquire); }

  // Memory between processes. Throws where the backend has none; call: its name in the reference.
  MemorySharing& sharing(const char* call);
  const std::shared_ptr<BlockExchange>& exchange(const char* call);
  // How many memories of other processes are open.
  uint64_t opened_count();

  // Lets `device` read and write the memory that this allocator has on `peer`.
  void enable_peer_access(int device, int peer);
  // On a stream of to_device; the host does not wait [core 23.5].
  void copy(Address to, int to_device, Address from, int from_device, uint64_t size, Stream stream);
  // Throws where the driver does not tell.
  DeviceTotals device_totals(int device);
  // The figures that the driver tells; those that it does not tell are left out, without an error.
  DeviceUse device_use(int device);
  std::vector<ExpandableSegmentRow> expandable_segments(int device);
  std::pair<uint64_t, uint64_t> expandable_totals();  // bytes reserved, segments
  // Reserve classes: R65, R67. Throw before release 2.15. An empty name takes the class away.
  void set_reserve_class(Stream stream, const std::string& name);
  std::string reserve_class(Stream stream);
  void set_default_reserve(const std::string& name, double fraction);
  ReserveDecision reserve(int device, const std::string& name);

  // The auditor: empty, or the first thing that is wrong.
  std::string check();
  // The first live block that was written beyond its end; empty: none, or there are no red zones.
  std::string check_red_zones();

 private:
  // Runs the auditor at the end of a call, where options ask for it.
  class Audit;

  void free_shared_block(Address address);
  PinnedAllocator& make_pinned();
  DeviceBackend& device(int index) const;  // throws for one that does not exist
  void require_reserves() const;
  void require_own(const Tenant& tenant) const;
  bool needs_peer_copy(int to_device, int from_device);
  // The handle that all threads share for their own default stream becomes the calling thread's
  // stream.
  Stream resolved(Stream stream) const;
  std::optional<Stream> resolved(std::optional<Stream> stream) const;

  HitPath hits_;
  const bool audits_;
  const bool serves_tenants_uncached_;
  // Before the backend, and so destroyed after it: the backend gives its memory back to the driver.
  std::shared_ptr<Driver> driver_;
  Rules rules_;
  ContextSource contexts_;
  std::unique_ptr<SharedState> shared_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<BlockExchange> exchange_;  // null: the backend shares nothing
  std::unique_ptr<PinnedAllocator> pinned_;  // guarded by the lock of the settings
  std::atomic<PinnedAllocator*> used_pinned_{nullptr};
  std::unique_ptr<Configuration> configuration_;
  std::atomic<uint64_t> last_user_pool_{0};
  std::atomic<uint64_t> last_graph_pool_{0};
};

}  // namespace cachalot
