// SPDX-License-Identifier: MIT OR Apache-2.0
// The allocator of one device: the state machine that docs/behaviour.md describes, with the
// reference's verbs.
//
// Where to find what (this folder; the others have the parts that it is made of):
//   hot_path.h             a hit and a usual free, all inline; attributed_hits.cpp: the same with labels,
//                          tenants and history
//   shard.h, hold.h        which part of the device a call has; stream_table.h leads to it
//   device_allocator.cpp   allocate, free, record_stream; settings, statistics
//   obtain_memory.cpp      the ladder of a miss
//   out_of_memory.cpp      its end without memory; oom_hints.h says what would have helped
//   release_memory.cpp     garbage collection, giving cached memory back, the cache emptied
//   trim.cpp               giving back what has been idle; backend/trim.h says how that is known
//   report.cpp             what holds the memory, and what keeps a request from it
//   expandable_memory.cpp  growing and unmapping expandable segments
//   pool_calls.cpp         calls on private pools
//   device_tenants.cpp     tenants: what a request is granted, and whose a block is
//   device_snapshot.cpp    snapshots, calls on the history
//   auditor.cpp            check()
//
// Every public function takes what it needs of the device: a shard, or a Hold (Note [Shards] in
// shard.h). Private functions expect the whole device to be held, unless they say that a shard is
// enough; those that unlock it meanwhile take the Hold as an argument.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "alloc/backend/backend.h"
#include "alloc/backend/shared_state.h"
#include "alloc/backend/trim.h"
#include "alloc/config/constants.h"
#include "alloc/debug/memory_watch.h"
#include "alloc/heap/block_pool.h"
#include "alloc/heap/hash_order.h"
#include "alloc/heap/page_table.h"
#include "alloc/heap/segment_copy.h"
#include "alloc/heap/segment_heap.h"
#include "alloc/native/shard.h"
#include "alloc/native/stream_table.h"
#include "alloc/pools/private_pool.h"
#include "alloc/pools/private_pools.h"
#include "alloc/stats/device_stats.h"
#include "alloc/stats/peaks.h"
#include "alloc/streams/pending_frees.h"
#include "alloc/sync/slow_path_flags.h"
#include "alloc/tenants/block_owners.h"
#include "alloc/tenants/tenant_pressure.h"
#include "alloc/trace/trace_recorder.h"
#include "base/lock.h"
#include "device/address_range.h"
#include "device/driver_error.h"

namespace cachalot {

class DeviceAllocator final : public DeviceBackend, private FreeCompletion, private SlowPath {
 public:
  DeviceAllocator(SharedState& shared, int device);
  ~DeviceAllocator();

  // ---- Hits (hot_path.h), tried first
  Address try_allocate(uint64_t requested, Stream stream);
  bool try_free(Shard& shard, Block* block, Address address);

  // ---- Blocks (device_allocator.cpp). shard, block: the address table's guess for address.
  Address allocate(const Request& request);
  bool free(Shard& shard, Block* block, Address address,
            std::optional<Stream> current_stream);  // false: not a live block
  void record_stream(Shard& shard, Block* block, Address address, Stream stream,
                     std::optional<Stream> current_stream);
  std::optional<BlockInfo> info(Shard& shard, const Block* block, Address address);
  std::pair<Address, uint64_t> base_allocation(Shard& shard, const Block* block, Address address);
  ContextId context_of(Shard& shard, const Block* block, Address address);
  void annotate(const Block* block, Address address, const std::string& text);
  uint64_t live_blocks();
  void free_all();

  // ---- The cache (release_memory.cpp)
  void empty_cache(PoolId pool, std::optional<Stream> current_stream) override;
  uint64_t largest_block(uint64_t at_least, Stream current_stream) override;
  void trim(const TrimGoal& goal, uint64_t* released) override;  // trim.cpp

  // ---- What is in the way (report.cpp)
  Report report(const Request& request);

  // ---- Limits, settings, statistics
  void set_memory_fraction(double fraction) override;
  double memory_fraction() override;
  void set_memory_limit(uint64_t bytes) override;
  uint64_t memory_limit() override;
  void set_settings(Settings&& settings) override;
  void set_observers(std::shared_ptr<const ObserverSet> observers);
  Stats stats() override;
  void reset_peak_stats() override;
  void reset_accumulated_stats() override;
  std::vector<std::pair<PoolId, StatArray>> pool_stats() override;
  std::vector<std::pair<PoolId, StatArray>> stats_of_existing_pools() override;
  std::vector<LabelStats> label_stats() override;
  DeviceTotals totals() override;

  // ---- History and snapshots (device_snapshot.cpp)
  void record_history(const HistoryOptions& options, uint32_t skipped_actions);
  void skip_actions(bool recording, uint32_t skipped_actions);
  std::vector<TraceEntry> history();
  void add_to_snapshot(Snapshot* snapshot, PoolId pool);

  // ---- Pools (pool_calls.cpp)
  void pool_create(PoolId id, PoolOptions options);
  void pool_begin(PoolId id, PoolFilter filter) override;
  void pool_end(PoolId id, std::optional<Stream> current_stream) override;
  void pool_release(PoolId id) override;
  void pool_set_use_on_oom(PoolId id, bool use);
  void pool_set_no_split(PoolId id);
  int pool_use_count(PoolId id);
  bool pool_has_live(PoolId id, const std::vector<Address>& addresses);
  void capture_begin() override;
  void capture_end() override;

  // ---- Tenants (device_tenants.cpp). From now on they count.
  void start_tenants();

  // ---- Expandable segments (expandable_memory.cpp)
  void give_peer_access(int peer) override;
  std::vector<ExpandableSegmentRow> expandable_segments();
  std::pair<uint64_t, uint64_t> expandable_totals() override;

  // The auditor (auditor.cpp): empty, or the first thing that is wrong.
  std::string check();
  // The first live block that was written beyond its end; empty: none, or there are no red zones.
  std::string check_red_zones();

 private:
  // One request on its way.
  struct AllocParams {
    uint64_t requested;         // n
    uint64_t size;              // S
    uint64_t segment_size = 0;  // A; known from the first miss on
    Stream stream;
    Stream current_stream;
    StreamEntry* entry;  // of the stream; null where only questions are asked, and there is none
    BlockPool* pool;

    // Null: nothing was obtained for this pool and stream yet.
    StreamFreeList* list() const {
      if (pool->owner) return pool->find(stream);
      return entry ? entry->default_lists[pool->is_small] : nullptr;
    }
    Shard& shard() const { return *entry->shard; }
    bool expandable;  // active for this request [core 8.4]
    ContextId context;
    BlockOwners::Owner owner = {};
    uint64_t obtained_when_rejected = 0;  // T
    bool rejected = false;                // R31
    bool source_gave_null = false;        // R82
  };

  // What the settings in force say of hits. Changes under the whole device.
  struct HitRules {
    uint64_t oversize = kUnlimited;  // no hit allocates or frees so large a block [core 6.6]
    bool is_expandable = false;
    uint64_t least_remainder[2] = {};  // by is_small
  };

  enum class Obtain { kFirst, kRetry };
  class Hold;
  class Unlocked;
  class Away;
  class OomHints;
  class Trim;
  class ReportTaker;

  // hot_path.h. pre: the shard.
  // Who counts a hit; a constant. Its shard, the account that shards share, or the device, which is
  // used as a whole.
  enum class CountedBy { kShard, kSharedAccount, kDevice };
  template <CountedBy counted_by, class Count>
  [[gnu::always_inline]] inline bool count_hit(Shard& shard, StreamFreeList& list, Count count);
  template <CountedBy counted_by>
  [[gnu::always_inline]] static inline bool keeps_last_free(const Shard& shard);
  template <CountedBy counted_by, class Admit>
  [[gnu::always_inline]] inline Block* allocate_usual(StreamEntry& entry, uint64_t requested,
                                                      Stream stream, Admit admit);
  Address allocate_sharing(StreamEntry& entry, uint64_t requested, Stream stream);
  Address allocate_attributed(StreamEntry& entry, uint64_t requested, Stream stream);
  bool free_attributed(Shard& shard, Block* block, Address address);
  bool free_sharing(Shard& shard, Block* block);
  bool free_usual(Shard& shard, Block* block);
  // Before anything that walks, releases, counts or changes what a hit does not.
  void flush(Shard& shard);
  void flush_only_shard();
  static void count_rounds(Shard& shard, Block* block, int64_t rounds);
  template <CountedBy counted_by>
  [[gnu::always_inline]] inline bool put_back(Shard& shard, Block* block);
  template <CountedBy counted_by>
  [[gnu::always_inline]] inline bool keep_or_put_back(Shard& shard, Block* block);

  // hold.cpp
  void recall_headroom(uint64_t last);
  void stop();
  void go_on();
  void visit_shards(bool for_a_move);
  void begin_at(Shard& shard);
  std::unique_lock<Lock> lock_at(Shard& shard);
  StreamEntry& entry_for(Stream stream);
  Shard* add_shard();
  Shard* next_shard();
  // What became of a step whose counters may have to recall headroom first.
  enum class Step { kDone, kRefused, kNeedsDevice };
  template <class TakeStep>
  bool with_headroom(Shard& shard, TakeStep step);
  template <class TakeStep>
  void with_headroom_of_held(Shard& shard, TakeStep step);
  template <class Look>
  auto look_at(Shard& shard, Look look);

  // device_allocator.cpp
  Step allocate_from_cache(StreamEntry& entry, const Request& request, ContextId context,
                           Address* address);
  Address allocate_on_device(const Request& request, ContextId context);
  bool free_to_cache(Shard& shard, Block* block);
  uint64_t round_size(uint64_t n) const;
  uint64_t segment_size_for(uint64_t size) const;
  AllocParams make_params(StreamEntry* entry, const Request& request, ContextId context);
  BlockPool& pool_for(uint64_t size, Stream stream);
  Block* best_fit(const AllocParams& params) const;
  Block* get_free_block(AllocParams& params);
  Block* step_to_smaller_reach(const StreamFreeList& list, Block* block) const;
  Block* skip_expandable(const StreamFreeList& list, Block* block) const;
  bool is_oversize_mismatch(const AllocParams& params, const Block* block) const;
  bool should_split(const AllocParams& params, const Block* block) const;
  Block* alloc_found_block(Block* block, const AllocParams& params, bool split);
  void free_locked(Block* block, Stream current_stream, ContextId context);
  void complete_free(Block* block, ContextId context) override;
  bool count(Shard& shard, bool is_small, const Counters::Move& move);
  int64_t oversize_of(uint64_t size) const { return size >= settings_.max_split_size ? 1 : 0; }
  Counters::Change change_of_any_free(const Block* block, Neighbours free) const;
  Address allocate_at(const Request& request, ContextId context, Hold& hold);
  std::pair<Address, uint64_t> base_allocation_locked(const Block* block, Address address);
  Block* free_block_around(const AllocParams& params, Address address);
  void free_what_is_ready(const Request& request, ContextId context);
  void settings_changed();

  // device_tenants.cpp
  TenantLedger& tenants() { return owners_.tenants(); }
  TenantBooking admit(const Request& request, AllocParams& params, Hold& hold);
  [[noreturn]] void refuse(AllocParams& params, const TenantRefusal& refusal, Hold& hold);
  void update_capacity();

  static Shard& shard_of(const Block* block) { return *list_of(block).shard; }
  StreamFreeList& list_for(BlockPool& pool, Stream stream);
  void drop_empty_lists(BlockPool& pool);
  template <class Visit>
  void for_each_list(Visit visit);
  bool has(uint32_t flags) const { return flags_.has(flags); }
  // Null: nothing is watched, or the memory is from a source that is not the driver.
  MemoryWatch* watch_of(const BlockPool& pool) const {
    return has(kWatched) && !has_source(pool) ? watch_.get() : nullptr;
  }

  // obtain_memory.cpp
  Block* obtain_block(AllocParams& params, Hold& hold);
  Block* climb_ladder(AllocParams& params, Hold& hold);
  Block* ask_tenants(AllocParams& params, Hold& hold);
  Block* take_all_and_search(AllocParams& params, Hold& hold);
  Block* run_free_memory_callbacks(AllocParams& params, Hold& hold);
  Block* alloc_block(AllocParams& params, Obtain attempt, Hold& hold);
  bool is_over_limit(const AllocParams& params) const;
  bool is_rejected(const AllocParams& params) const;
  std::optional<Address> ask_driver(AllocParams& params, Hold& hold);
  Block* add_plain_segment(const AllocParams& params, Address address);
  bool try_mempool_fallback(AllocParams& params, Block** block);
  void end_fallback(PoolId id, AllocParams& fallback, Block** found);
  bool mend_search(AllocParams& params, Block** block);
  bool never_fits(const AllocParams& params);

  // out_of_memory.cpp
  [[noreturn]] void throw_out_of_memory(const AllocParams& params, Hold& hold);
  [[noreturn]] void throw_out_of_memory(const AllocParams& params, const OutOfMemory& numbers,
                                        std::string text, Hold& hold);
  [[noreturn]] void throw_rejected(const AllocParams& params, Hold& hold);
  std::string reserve_advice(const AllocParams& params, uint64_t total);
  OutOfMemory out_of_memory_numbers(const AllocParams& params);
  std::string out_of_memory_text(const AllocParams& params, const OutOfMemory& numbers);

  // release_memory.cpp
  void garbage_collect_cached_blocks(ContextId context);
  bool release_available_cached_blocks(const AllocParams& params);
  void release_cached_blocks(PoolId pool, std::optional<Stream> current_stream, ContextId context);
  void release_blocks(BlockPool& pool, ContextId context);
  void release_block(Block* block, ContextId context);
  void announce_release(const Block* block, ContextId context);
  DriverCode give_segment_to_driver(const Block* block);
  static uint64_t releasable_bytes(const Block* free_block);
  void forget_segment(Block* only_block);
  void release_private_pool(PoolId id, ContextId context);
  DriverCode give_to_driver(const BlockPool& pool, Address address, uint64_t size,
                            Stream source_stream);
  // Throws for a range of the driver or a source that cannot be memory; the range goes back first.
  template <class GiveBack>
  void require_new_range(const BlockPool& pool, Address address, uint64_t size,
                         const GiveBack& give_back) const {
    const char* const flaw = flaw_of_range(address, size, kMinBlockSize);
    if (!flaw) return require_apart(pool, address, size);
    if (address != 0) give_back();
    throw_refusing(pool, address, size, std::string(": ") + flaw);
  }
  void require_apart(const BlockPool& pool, Address address, uint64_t size) const;
  [[noreturn]] static void throw_refusing(const BlockPool& pool, Address address, uint64_t size,
                                          const std::string& why);
  void give_everything_back();

  // expandable_memory.cpp
  Block* try_allocate_expandable_block(AllocParams& params);
  Block* find_expandable_block(AllocParams& params);
  uint64_t pages_to_reserve(const AllocParams& params, uint64_t page);
  Block* new_expandable_segment(AllocParams& params);
  uint64_t expandable_reserve(Stream stream, uint64_t total);
  bool map_block(Block* block, uint64_t size, ContextId context);
  void unmap_block(Block* block, ContextId context);

  // device_snapshot.cpp
  void trace(Action action, Address address, uint64_t size, Stream stream, const BlockPool& pool,
             ContextId context) {
    recorder_.record(action, address, size, stream, pool_id_of(pool), context);
  }
  void copy_segments(std::deque<SegmentCopy>& copies);
  void add_to_snapshot(Snapshot* snapshot, const SegmentCopy& copy, bool only_from_head) const;
  // Before a block changes, and for one that is new. pre: the shard, and begin_at().
  static void preserve(Shard& shard, Block* block);
  static void preserve_before_free(Shard& shard, Block* block, Neighbours free);

  // auditor.cpp
  std::string check_segment(const Segment& segment);
  std::string check_free_sets();
  std::string check_counters();
  std::string check_pending();

  struct DeviceMemory {
    uint64_t available;
    uint64_t total;
  };
  DeviceMemory device_memory();
  uint64_t limit_of(double fraction, uint64_t total) const;

  Peaks::Sums sums() const;  // pre: the whole device
  // Read by every call, and seldom written.
  SlowPathFlags flags_;
  HitRules hit_rules_;
  SharedState& shared_;
  Driver& driver_;
  const Rules& rules_;
  const int device_;

  StreamTable streams_;

  alignas(64) Lock lock_{LockRank::kDevice};
  uint32_t copy_number_ = 0;
  Lock recalling_{LockRank::kRecall};  // also for changes of the list of shards
  std::vector<std::unique_ptr<Shard>> shards_;
  uint32_t next_shard_ = 0;  // when all are there
  Peaks peaks_{flags_};
  uint64_t limit_ = kUnlimited;  // L
  Settings settings_;

  SegmentHeap heap_;
  std::vector<Segment*> expandable_segments_;  // in the order of their creation
  std::vector<int> peers_;                     // that have access to expandable pages

  PrivatePools pools_;

  Captures captures_;
  PendingFrees pending_;

  DeviceStats stats_;  // those that the shards do not count
  BlockOwners owners_;

  TraceRecorder recorder_;
  std::shared_ptr<const ObserverSet> observers_;
  std::unique_ptr<MemoryWatch> watch_;  // null: off
};

template <class Visit>
void DeviceAllocator::for_each_list(Visit visit) {
  const auto visit_pool = [&](BlockPool& pool) {
    for (auto& [stream, list] : pool.lists) visit(list);
  };
  for (const bool is_small : {false, true}) visit_pool(heap_.default_pool(is_small));
  for (auto& [id, pool] : pools_.all()) visit_pool(pool->small), visit_pool(pool->large);
}

}  // namespace cachalot
