// SPDX-License-Identifier: MIT OR Apache-2.0
// The allocator over all devices of a driver: what the C interface is a thin layer over.
//
// It checks arguments, resolves streams, runs the auditor where options ask for it, and calls the
// backend that the option string chose (backend.h), which holds the decisions. What the reference
// keeps once a process (segment numbers, the fabric trial, reserve classes, warnings given) belongs
// to an allocator (shared_state.h).
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
#include "alloc/pools/pool_route.h"
#include "alloc/stats/device_totals.h"
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
class Configuration;
class DeviceBackend;
class SharedState;
class Tenants;
struct Tenant;
struct TenantOptions;

// Every function throws Error; every function but the destructor may be called from any thread at
// any time.
class Allocator {
 public:
  explicit Allocator(const AllocatorOptions& options);
  ~Allocator();  // frees what is cached; pre: no live block (see live_blocks, free_all)
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  Driver& driver() const { return *driver_; }
  const Rules& rules() const { return rules_; }
  int device_count() const { return driver_->device_count(); }
  const char* backend_name() const;  // "native" or "cudaMallocAsync"

  Address allocate(const Request& request);
  Address allocate(uint64_t size, int device, Stream stream);
  void free(Address address);
  void free(Address address, std::optional<Stream> current_stream);
  const HitPath& hits() const { return hits_; }  // tried first where speed matters
  void record_stream(Address address, Stream stream, std::optional<Stream> current_stream = {});
  BlockInfo block(Address address);
  std::pair<Address, uint64_t> base_allocation(Address address);
  uint64_t live_blocks();
  void free_all();  // waits for each device that has live blocks, then frees them

  void empty_cache(int device, PoolId pool = {}, std::optional<Stream> current_stream = {});
  uint64_t largest_block(int device, uint64_t at_least, Stream current_stream = 0);
  // Adds to *released as it goes, also before it throws.
  void trim(int device, const TrimGoal& goal, uint64_t* released);
  void set_caching_enabled(bool enabled);
  bool is_caching_enabled() const;

  void set_memory_fraction(int device, double fraction);
  double memory_fraction(int device);
  void set_memory_limit(int device, uint64_t bytes);  // kUnlimited: none
  uint64_t memory_limit(int device);

  void configure(const std::string& config);
  Settings settings();
  // Changes all or nothing, and no other call changes settings meanwhile. `change` must not call back.
  void change_settings(const std::function<void(Settings&)>& change);
  void update_config(const std::string& config);

  Stats stats(int device);
  void reset_peak_stats(int device);
  void reset_accumulated_stats(int device);
  std::vector<std::pair<PoolId, StatArray>> pool_stats(int device);
  // Without the rows that pools left behind.
  std::vector<std::pair<PoolId, StatArray>> stats_of_existing_pools(int device);
  std::vector<LabelStats> label_stats(int device);
  Snapshot snapshot(PoolId pool, bool with_history);
  // Of size 0: of no request in particular.
  Report report(const Request& request);

  void record_history(const HistoryOptions& options);
  ContextId context_of(Address address);
  const ContextSource& contexts() const { return contexts_; }
  void annotate(Address address, const std::string& text);
  // Each returns an id for detach.
  uint64_t observe_trace(TraceObserver observer);
  uint64_t observe_out_of_memory(OutOfMemoryObserver observer);
  uint64_t observe_rejection(RejectionObserver observer);
  uint64_t register_free_memory_callback(FreeMemoryCallback callback);
  void detach(uint64_t id);

  // Ids of this allocator, never given twice.
  PoolId new_pool_id(bool for_graph);
  void pool_create(int device, PoolId id, PoolOptions options);
  void pool_begin(int device, PoolId id, PoolFilter filter);
  void pool_end(int device, PoolId id, std::optional<Stream> current_stream = {});
  void pool_release(int device, PoolId id);
  void pool_set_use_on_oom(int device, PoolId id, bool use);
  void pool_set_no_split(int device, PoolId id);
  int pool_use_count(int device, PoolId id);
  bool pool_has_live(int device, PoolId id, const std::vector<Address>& addresses);
  void capture_begin(int device);
  void capture_end(int device);

  // Counts tenants from the first one on.
  std::shared_ptr<Tenant> tenant_create(TenantOptions options);
  const std::shared_ptr<Tenants>& tenants() const;
  Address allocate_for(const Tenant& tenant, uint64_t size, int device, Stream stream);

  void enable_peer_access(int device, int peer);
  DeviceTotals device_totals(int device);
  // The figures that the driver tells; those that it does not tell are left out, without an error.
  DeviceUse device_use(int device);
  std::vector<ExpandableSegmentRow> expandable_segments(int device);
  std::pair<uint64_t, uint64_t> expandable_totals();  // bytes reserved, segments
  void set_reserve_class(Stream stream, const std::string& name);
  std::string reserve_class(Stream stream);
  void set_default_reserve(const std::string& name, double fraction);
  ReserveDecision reserve(int device, const std::string& name);

  // The auditor: empty, or the first thing that is wrong.
  std::string check();
  // The first live block that was written beyond its end; empty: none, or there are no red zones.
  std::string check_red_zones();

 private:
  class Audit;

  DeviceBackend& device(int index) const;  // throws for one that does not exist
  void require_reserves() const;
  // The handle that all threads share for their own default stream becomes the calling thread's
  // stream.
  Stream resolved(Stream stream) const;
  std::optional<Stream> resolved(std::optional<Stream> stream) const;

  HitPath hits_;
  const bool audits_;
  // Before the backend, and so destroyed after it: the backend gives its memory back to the driver.
  std::shared_ptr<Driver> driver_;
  Rules rules_;
  ContextSource contexts_;
  std::unique_ptr<SharedState> shared_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Configuration> configuration_;
  std::atomic<uint64_t> last_user_pool_{0};
  std::atomic<uint64_t> last_graph_pool_{0};
};

}  // namespace cachalot
