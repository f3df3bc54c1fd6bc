// SPDX-License-Identifier: MIT OR Apache-2.0
// The allocator of one device: the state machine that docs/behaviour.md describes, with the
// reference's verbs. Its parts and the operations on them are listed in device_state.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alloc/backend/backend.h"
#include "alloc/backend/trim.h"
#include "alloc/native/device_state.h"
#include "alloc/native/hit_path.h"

namespace cachalot {

// Locks what each call needs of the device, and calls the operations on its parts (device_state.h).
class DeviceAllocator final : public DeviceBackend, private SlowPath {
 public:
  DeviceAllocator(SharedState& shared, int device, const MakeCachePolicy& make_policy);
  ~DeviceAllocator();

  // For operations that lock the device themselves (device_pools.h, pool_checkpoints.h, pool_sleep.h, block_sharing.h).
  DeviceState& state() { return state_; }

  // ---- Hits (hot_path.h), tried first
  template <DecidedBy decided_by, Waiting waiting>
  Address try_allocate(uint64_t requested, Stream stream);
  template <DecidedBy decided_by, Waiting waiting>
  bool try_free(Shard& shard, Block* block, Address address);

  // ---- Blocks. shard, block: the address table's guess for address.
  Address allocate(const Request& request);
  bool free(Shard& shard, Block* block, Address address,
            std::optional<Stream> current_stream);  // false: not a live block
  bool record_stream(Shard& shard, Block* block, Address address, Stream stream,
                     std::optional<Stream> current_stream);  // false: not a live block
  // reach: whether the block begins at the address, or holds it.
  enum class Reach : uint8_t { kBegin, kInside };
  std::optional<BlockInfo> info(Shard& shard, const Block* block, Address address,
                                Reach reach = Reach::kBegin);
  std::pair<Address, uint64_t> base_allocation(Shard& shard, const Block* block, Address address);
  ContextId context_of(Shard& shard, const Block* block, Address address);
  void annotate(const Block* block, Address address, const std::string& text);
  uint64_t live_blocks();
  void free_all();

  // ---- The cache
  void empty_cache(PoolId pool, std::optional<Stream> current_stream) override;
  uint64_t largest_block(uint64_t at_least, Stream current_stream) override;
  void trim(const TrimGoal& goal, uint64_t* released) override;
  // False: the part does not lie in a live block of this device.
  bool pin(Address part, uint64_t size);
  bool unpin(Address part, uint64_t size);  // false: the part is not pinned here
  void stream_ended(Stream stream) override;
  void release_context() override;

  // ---- What is in the way
  Report report(const Request& request);

  // ---- Limits, settings, statistics
  void set_memory_fraction(double fraction) override;
  double memory_fraction() override;
  void set_memory_limit(uint64_t bytes) override;
  uint64_t memory_limit() override;
  void set_settings(Settings&& settings) override;
  // live_rows: empty, or sees what is live when the set takes effect.
  void set_observers(std::shared_ptr<const ObserverSet> observers,
                     const LiveRowsObserver& live_rows);
  // Of one moment, without stopping hits: Note [Reading statistics].
  Stats stats() override;
  PolicyStats policy_stats() override;
  void reset_peak_stats() override;
  void reset_accumulated_stats() override;
  // With rows of pools that are gone; the next function leaves those out.
  std::vector<std::pair<PoolId, StatArray>> pool_stats() override;
  std::vector<std::pair<PoolId, StatArray>> stats_of_existing_pools() override;
  std::vector<LabelStats> label_stats() override;
  DeviceTotals totals() override;

  // ---- History and snapshots
  void record_history(const HistoryOptions& options, uint32_t skipped_actions);
  // The part of record_history() that a request with an unknown action has [core 22.3].
  void skip_actions(bool recording, uint32_t skipped_actions);
  std::vector<TraceEntry> history();
  void add_to_snapshot(Snapshot* snapshot, PoolId pool);

  // ---- Pools
  void pool_begin(PoolId id, PoolFilter filter) override;
  void pool_end(PoolId id, std::optional<Stream> current_stream) override;
  void pool_release(PoolId id) override;
  void capture_begin() override;
  void capture_end() override;

  // ---- Tenants. From now on they count.
  void start_tenants();

  // ---- Expandable segments
  // Another device may use this one's memory.
  void give_peer_access(int peer) override;
  // Whether it was told so before.
  bool gives_access_to(int peer) override;
  bool has_expandable_segments() override;
  std::vector<ExpandableSegmentRow> expandable_segments();
  std::pair<uint64_t, uint64_t> expandable_totals() override;

  // The auditor: empty, or the first thing that is wrong.
  std::string check();
  // The first live block that was written beyond its end; empty: none, or there are no red zones.
  std::string check_red_zones();

 private:
  void finish_moves();
  ContextId capture_context(ContextLevel level) const {
    return state_.recorder.capture_context(level);
  }
  // Tells the settings, and the tenants' ledger where tenants count.
  void set_limit(uint64_t bytes);

  DeviceState state_;
};

}  // namespace cachalot
