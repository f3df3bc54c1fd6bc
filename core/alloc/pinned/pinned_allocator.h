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
// of a cache.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "alloc/config/rules.h"
#include "alloc/config/wording.h"
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
  [[gnu::always_inline]] Address allocate(uint64_t asked, int device, Stream current_stream) {
    if (asked == 0) return 0;
    const uint64_t size = rounded(asked);
    if (pools_.is_routing()) [[unlikely]]
      return allocate_routed(size, device, current_stream);
    PinnedPool& pool = pools_.default_pool();
    if (!pool.waiting.is_empty() && looks_at_events_.load(std::memory_order_relaxed)) [[unlikely]]
      process_events(pool);
    return allocate_from(pool, size, false);
  }
  // (here and below) Throw where no block that is handed out begins at the address.
  [[gnu::always_inline]] void free(Address address) {
    if (address == 0) return;
    PinnedBlock* const block = blocks_.find(address);
    if (block == nullptr) throw_no_block(address);
    const uint64_t largest_cached = largest_cached_.load(std::memory_order_relaxed);
    const PinnedCache::Freed freed = block->pool->cache.free(block, address, largest_cached);
    if (freed != PinnedCache::Freed::kCached) [[unlikely]]
      end_free(block, address, freed);
  }
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

  // Waits for the frees that wait, gives all cached blocks back and destroys the events of a device.
  void release_context(int device);

  void pool_begin(PoolId id, PoolFilter filter) { pools_.begin(id, std::move(filter)); }
  void pool_end(PoolId id) { pools_.end(id); }
  void pool_release(PoolId id) { pools_.release(id); }

  // The auditor: empty, or the first thing that is wrong. It walks the classes under the lock of their cache, and compares
  // what each block says of itself with where it lies.
  std::string check();

 private:
  void wait_for_frees();
  // Above it a size has no class [pinned 1.7].
  static constexpr uint64_t kLargestSize = uint64_t{1} << 63;

  [[noreturn]] static void throw_no_block(Address address);
  [[noreturn]] static void throw_too_large(uint64_t size);

  // pre: no other call is under way, since an object may stand for another block meanwhile.
  std::vector<Address> handed_out();

  // ---- Requests
  // The size of the block that serves a request. Throws where no class holds it.
  uint64_t rounded(uint64_t size) const {  // [pinned 1.2]
    if (size <= largest_rounded_.load(std::memory_order_relaxed)) [[likely]]
      return std::bit_ceil(size);
    if (size > kLargestSize) throw_too_large(size);
    return size;
  }
  // While requests are routed to some pool. The driver is asked whether the stream is captured, also for a request
  // that no pool takes, because its block is lost all the same [pinned 6.3].
  Address allocate_routed(uint64_t size, int device, Stream current_stream);
  // size: rounded.
  [[gnu::always_inline]] Address allocate_from(PinnedPool& pool, uint64_t size, bool is_captured) {
    PinnedBlock* block = pool.cache.take(size, is_captured);
    if (block == nullptr) [[unlikely]]
      block = obtain(size, pool, is_captured);
    return block->address.load(std::memory_order_relaxed);
  }
  // A new block, handed out. A failure changes no figure, as in the reference [pinned 1.6].
  PinnedBlock* obtain(uint64_t size, PinnedPool& pool, bool is_captured);
  // The memory becomes the block's, or goes back.
  void put(PinnedBlock* block, const PinnedMemory::Range& range);

  // ---- Frees
  // What a freed block that is not cached at once needs. Throws where it was no block that is handed out.
  void end_free(PinnedBlock* block, Address address, PinnedCache::Freed freed);
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
  const Wording& wording_;
  Log& log_;
  // Of the settings, for each request: a hit takes no lock for them.
  std::atomic<uint64_t> largest_rounded_;  // at most kLargestSize
  std::atomic<uint64_t> largest_cached_;   // as it is when a block comes back
  std::atomic<bool> looks_at_events_;

  PinnedBlocks blocks_;
  PinnedMemory memory_;
  PinnedPools pools_;

  Mutex settings_lock_{LockRank::kPinnedSettings};
  PinnedSettings settings_;
  BackgroundCompletion background_;
};

}  // namespace cachalot
