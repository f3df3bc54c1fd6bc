// SPDX-License-Identifier: MIT OR Apache-2.0
// The seam between an allocator's calls and what serves them.
//
// Allocator (allocator.h) checks arguments and calls one Backend for as long as it lives:
//   NativeBackend (native_backend.h)      keeps a cache of its own
//   AsyncBackend (async/async_backend.h)  leaves caching to the driver, for backend:cudaMallocAsync
// A hit does not pass through here: it goes straight to the native backend's device (hot_path.h).
//
// Note [Calls that a backend lacks]
// Rationale: The driver's pools show no blocks, so AsyncBackend cannot serve every call. The
// reference refuses some of these calls and ignores others, and programs rely on which.
// Approach: The base classes below give that answer. A backend overrides the calls that it has.
// Invariants: A call that a backend may refuse belongs to Backend, also where it names a device:
// the refusal comes before the look whether the device exists. DeviceBackend only has calls that
// each backend serves or ignores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alloc/backend/report.h"
#include "alloc/backend/trim.h"
#include "alloc/config/pool_id.h"
#include "alloc/config/settings.h"
#include "alloc/heap/request.h"
#include "alloc/pools/checkpoint.h"
#include "alloc/pools/pool_route.h"
#include "alloc/pools/sleeping_pool.h"
#include "alloc/stats/device_totals.h"
#include "alloc/stats/policy_stats.h"
#include "alloc/stats/stats.h"
#include "alloc/tenants/labels.h"
#include "alloc/trace/history.h"
#include "alloc/trace/observers.h"
#include "alloc/trace/snapshot.h"

namespace cachalot {

class MemorySharing;
struct HistoryOptions;

// The calls of a backend on one device. Every function may throw Error unless it says otherwise.
class DeviceBackend {
 public:
  DeviceBackend() = default;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  // ---- The cache. current_stream is the caller's.
  // Gives back what can be given back; may wait for events of other streams.
  virtual void empty_cache(PoolId pool, std::optional<Stream> current_stream) = 0;
  virtual uint64_t largest_block(uint64_t at_least, Stream current_stream) = 0;
  // Adds to *released as it goes, also before it throws.
  virtual void trim(const TrimGoal& goal, uint64_t* released) = 0;
  // The caller is about to destroy the stream.
  virtual void stream_ended(Stream) {}
  // The caller is about to end the device's context.
  virtual void release_context() = 0;

  // ---- Limits and settings
  virtual void set_memory_fraction(double fraction) = 0;
  virtual double memory_fraction() = 0;
  virtual void set_memory_limit(uint64_t bytes) = 0;  // kUnlimited: none
  virtual uint64_t memory_limit() = 0;
  virtual void set_settings(Settings&&) {}  // does not throw
  // The peer may use this device's memory from now on, and so what is mapped later.
  virtual void give_peer_access(int peer) = 0;
  virtual bool gives_access_to(int) { return false; }  // as far as it had to be noted
  virtual bool has_expandable_segments() { return false; }

  // ---- Statistics
  virtual Stats stats() = 0;
  virtual void reset_peak_stats() = 0;
  virtual void reset_accumulated_stats() = 0;
  virtual DeviceTotals totals() = 0;
  virtual PolicyStats policy_stats() { return {}; }
  // Rows of private pools, with and without those of pools that are gone.
  virtual std::vector<std::pair<PoolId, StatArray>> pool_stats() { return {}; }
  virtual std::vector<std::pair<PoolId, StatArray>> stats_of_existing_pools() { return {}; }
  virtual std::vector<LabelStats> label_stats() { return {}; }
  virtual std::pair<uint64_t, uint64_t> expandable_totals() { return {}; }  // bytes, segments

  // ---- Pools and captures
  virtual void pool_begin(PoolId id, PoolFilter filter) = 0;
  virtual void pool_end(PoolId id, std::optional<Stream> current_stream) = 0;
  virtual void pool_release(PoolId) {}
  // Marks of a capture (R10).
  virtual void capture_begin() {}
  virtual void capture_end() {}

 protected:
  ~DeviceBackend() = default;
};

// The calls of a backend over all devices. Every function may throw Error and may be called from
// any thread at any time. Streams are resolved (Driver::resolve).
class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;  // gives back what is cached; pre: no live block
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual const char* name() const = 0;          // as the option backend has it
  virtual DeviceBackend& device(int index) = 0;  // throws for a device that does not exist

  // ---- Blocks
  virtual Address allocate(const Request& request) = 0;  // pre: the device exists
  virtual void free(Address address, std::optional<Stream> current_stream) = 0;  // pre: not 0
  // Another stream uses the block: its free will wait for that stream's work.
  virtual void record_stream(Address address, Stream stream,
                             std::optional<Stream> current_stream) = 0;
  virtual BlockInfo block(Address address) = 0;
  // The live block that begins at the address, and the one that holds it; without an error.
  virtual std::optional<BlockInfo> find_block(Address) { return {}; }
  virtual std::optional<BlockInfo> find_block_around(Address) { return {}; }
  virtual std::pair<Address, uint64_t> base_allocation(Address address) = 0;
  // The context that the block's hand-out kept (R45).
  virtual ContextId context_of(Address) { return kNoContext; }
  virtual void annotate(Address address, const std::string& text) = 0;
  // Handed out and not freed by their callers.
  virtual uint64_t live_blocks() = 0;
  virtual void free_all() = 0;  // waits for each device that has live blocks, then frees them

  // ---- The switch of the cache
  virtual void set_caching_enabled(bool) {}
  virtual bool is_caching() const { return true; }          // whether the next request is cached
  virtual bool is_caching_enabled() const { return true; }  // what callers are told (R73)

  // Throws if the backend cannot work with these settings.
  virtual void require_possible(const Settings&) const {}

  // ---- History and observers. Each observer gets an id for detach.
  virtual Snapshot snapshot(PoolId pool, bool with_history);  // all but settings and release
  virtual void record_history(const HistoryOptions& options);
  virtual uint64_t observe_trace(TraceObserver&& observer, const LiveRowsObserver& live_rows);
  virtual uint64_t observe_out_of_memory(OutOfMemoryObserver&& observer);
  virtual uint64_t observe_rejection(RejectionObserver&& observer);
  virtual uint64_t register_free_memory_callback(FreeMemoryCallback&& callback);
  virtual void detach(uint64_t id);

  // ---- What needs blocks that are the library's own
  virtual Report report(const Request& request);
  virtual void pool_create(int device, PoolId id, PoolOptions&& options);
  virtual void pool_set_use_on_oom(int device, PoolId id, bool use);
  virtual void pool_set_no_split(int device, PoolId id);
  virtual void pool_set_pinned(int device, PoolId id, bool is_pinned);
  virtual void pool_set_whole_blocks(int device, PoolId id);
  // A part of a live block keeps its place.
  virtual void pin(Address part, uint64_t size);
  virtual void unpin(Address part, uint64_t size);
  virtual int pool_use_count(int device, PoolId id);
  virtual bool pool_has_live(int device, PoolId id, const std::vector<Address>& addresses);
  virtual Checkpoint checkpoint_take(int device, PoolId id);
  virtual CheckpointChanges checkpoint_apply(int device, const Checkpoint& checkpoint);
  // Pools that sleep (pools/sleeping_pool.h). Gives the bytes that the driver has back.
  virtual uint64_t pool_sleep(int device, const SleepRequest& request);
  // pre: the thread holds no lock, since tenants may be asked.
  virtual void pool_wake(int device, PoolId id, Stream stream);
  virtual void pool_set_sleep_contents(int device, PoolId id, const std::string& label,
                                       SleepContents contents);
  virtual SleepStats sleep_stats(int, PoolId) { return {}; }  // the default pool: of all
  virtual std::vector<ExpandableSegmentRow> expandable_segments(int device);
  // From now on blocks count for tenants; those that are live count for the default tenant.
  virtual void start_tenants();
  // Memory between processes. Null: there is none.
  virtual MemorySharing* find_sharing() { return nullptr; }
  // Refuses by the call's name in the reference where there is none.
  MemorySharing& sharing(const char* call) {
    MemorySharing* const found = find_sharing();
    if (found == nullptr) refuse(call);
    return *found;
  }

  // ---- The auditor: empty, or the first thing that is wrong.
  virtual std::string check() = 0;
  // The first live block that was written beyond its end.
  virtual std::string check_red_zones() { return ""; }

 protected:
  // Refuses a call by its name in the reference.
  [[noreturn]] void refuse(const char* call) const;
};

}  // namespace cachalot
