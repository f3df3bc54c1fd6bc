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

  // Throws where the driver refuses; what was not given back by then stays cached, and the next call goes on with it.
  void empty_cache();
  // Blocks that are handed out. Those that wait for streams after their free are not.
  uint64_t live_blocks();
  void free_all();  // waits for the streams

  void set_settings(const PinnedSettings& settings) noexcept;

  PinnedStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();

  void pool_begin(PoolId id, PoolFilter filter) { pools_.begin(id, std::move(filter)); }
  void pool_end(PoolId id) { pools_.end(id); }
  void pool_release(PoolId id) { pools_.release(id); }

  // The auditor: empty, or the first thing that is wrong. It walks the classes, each under its lock, and compares
  // what each block says of itself with where it lies.
  std::string check();

 private:
  // pre: no other call is under way, since an object may stand for another block meanwhile.
  std::vector<Address> handed_out();

  // ---- Requests
  // The size of the block that serves a request. Throws where no class holds it.
  uint64_t rounded(uint64_t size) const;
  // While requests are routed to some pool. The driver is asked whether the stream is captured, also for a request
  // that no pool takes, because its block is lost all the same [pinned 6.3].
  Address allocate_routed(uint64_t size, int device, Stream current_stream);
  // size: rounded.
  Address allocate_from(PinnedPool& pool, uint64_t size, bool is_captured);
  // A new block, handed out. A failure changes no figure, as in the reference [pinned 1.6].
  PinnedBlock* obtain(uint64_t size, PinnedPool& pool, bool is_captured);
  // The memory becomes the block's, or goes back.
  void put(PinnedBlock* block, const PinnedMemory::Range& range);

  // ---- Frees
  // The option counts as it is when the block comes back, not as it was when the block was handed out.
  bool is_cacheable(const PinnedBlock* block) const;
  // Completes the frees of the pool whose work is done. Those of other pools wait for a request of theirs [pinned 1.3].
  void process_events(PinnedPool& pool);
  // The streams are done with the block.
  void complete(PinnedBlock* block);

  // ---- Giving back
  void give_back(PinnedBlock* block);
  // The same for callers to whom a refusal is no failure: the block is cached then.
  void give_back_or_keep(PinnedBlock* block);
  // All that the pool has cached. Where the driver refuses a block, that one and those behind it stay cached.
  void give_back_cached(PinnedPool& pool);

  // Throws std::system_error where no thread is to be had.
  void start_background();
  // A copy, so that a request sees one state of them without their lock.
  PinnedSettings settings();

  Driver& driver_;
  Log& log_;
  // Of the settings, for each request: a hit takes no lock for them.
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
