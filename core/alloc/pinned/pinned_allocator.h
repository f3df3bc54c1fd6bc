// SPDX-License-Identifier: MIT OR Apache-2.0
// The caching allocator of pinned host memory: one for all devices (docs/behaviour/pinned-memory.md, whose rules
// are named [pinned 1.2]).
//
// Note [Pinned memory]
// Rationale: the driver takes a millisecond for a block, and stops devices meanwhile. So blocks are kept, and a
// free cannot wait for the device that still copies from a block.
// Approach: a request takes a whole cached block of its class (pinned_cache.h), or memory of its own
// (pinned_memory.h). A block that streams use waits for their events when it is freed (pinned_queue.h); the next
// request looks at them. Requests of captures into graphs go to pools of their own (pinned_pools.h).
// Invariants: a block is handed out, in one class, in one queue, or lost. No driver call is made under the lock
// of a class.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "alloc/config/rules.h"
#include "alloc/pinned/background_completion.h"
#include "alloc/pinned/pinned_blocks.h"
#include "alloc/pinned/pinned_memory.h"
#include "alloc/pinned/pinned_pools.h"
#include "alloc/pinned/pinned_settings.h"
#include "alloc/stats/pinned_stats.h"
#include "alloc/trace/log.h"
#include "base/mutex.h"

namespace cachalot {

// Every function throws Error; every function but the destructor may be called from any thread at any time.
class PinnedAllocator {
 public:
  PinnedAllocator(Driver& driver, const Rules& rules, Log& log, const PinnedSettings& settings);
  ~PinnedAllocator();  // gives everything back, whatever is live
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;

  // 0 for a request of 0 bytes. device, current_stream: of the thread, by which captures take requests.
  Address allocate(uint64_t size, int device, Stream current_stream);
  // (here and below) Throw where no block that is handed out begins at the address.
  void free(Address address);
  // A stream uses the block.
  void record_stream(Address address, int device, Stream stream);
  uint64_t size_of(Address address);

  void empty_cache();
  uint64_t live_blocks();  // handed out
  void free_all();         // waits for the streams

  void set_settings(const PinnedSettings& settings) noexcept;

  PinnedStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();

  void pool_begin(PoolId id, PoolFilter filter) { pools_.begin(id, std::move(filter)); }
  void pool_end(PoolId id) { pools_.end(id); }
  void pool_release(PoolId id) { pools_.release(id); }

  // The auditor: empty, or the first thing that is wrong.
  std::string check();

 private:
  std::vector<Address> handed_out();
  uint64_t rounded(uint64_t size) const;
  Address allocate_routed(uint64_t size, int device, Stream current_stream);
  Address allocate_from(PinnedPool& pool, uint64_t size, bool is_captured);
  PinnedBlock* obtain(uint64_t size, PinnedPool& pool, bool is_captured);
  void put(PinnedBlock* block, const PinnedMemory::Range& range);
  bool is_cacheable(const PinnedBlock* block) const;
  void process_events(PinnedPool& pool);
  void complete(PinnedBlock* block);
  void give_back(PinnedBlock* block);
  void give_back_or_keep(PinnedBlock* block);
  void give_back_cached(PinnedPool& pool);
  void start_background();
  PinnedSettings settings();

  Driver& driver_;
  Log& log_;
  // Of the settings, for each request.
  std::atomic<uint64_t> largest_rounded_;
  std::atomic<uint64_t> largest_cached_;
  std::atomic<bool> looks_at_events_;

  PinnedBlocks blocks_;
  PinnedMemory memory_;
  PinnedPools pools_;

  Mutex settings_lock_{LockRank::kPinnedSettings};
  PinnedSettings settings_;
  BackgroundCompletion background_;
};

}  // namespace cachalot
