// SPDX-License-Identifier: MIT OR Apache-2.0
// Reasons why a call is more than a search in the cache; none is the usual case.
//
// Each flag belongs to the class that sets and clears it, named behind it. A call reads the flags
// under the lock of its shard. So a thread that sets one, and then has held the lock of each shard
// once, knows that every later call sees it (Note [Shards] in shard.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/futex.h"
#include "base/starved_threads.h"

namespace cachalot {

// To be inherited by a class that uses the names.
struct SlowPath {
  enum : uint32_t {
    kPendingFrees = 1 << 0,   // events or deferred frees are waiting (PendingFrees)
    kRouting = 1 << 1,        // pools are being routed to (PrivatePools)
    kMarkedCapture = 1 << 2,  // R10 (Captures)
    kAging =
        1 << 3,  // a limit and garbage_collection_threshold are set [core 6.2] (DeviceSettings)
    kRounding = 1 << 4,   // sizes are rounded by divisions (DeviceSettings)
    kContexts = 1 << 5,   // blocks may keep contexts; stays once they did (TraceRecorder)
    kMarks = 1 << 6,      // free blocks are marked with their age; stays (DeviceSettings)
    kWatched = 1 << 7,    // see Note [Memory watch]; stays (DeviceAllocator)
    kStaleUses = 1 << 8,  // the reference wrongly remembers uses (U2) (PendingFrees)
    kServing = 1 << 9,    // the serving policy decides; stays (DeviceSettings)

    kHeld = 1 << 25,     // a call has the whole device (Shards)
    kReading = 1 << 26,  // statistics are read (StatsReading)
    kScarce = 1 << 27,   // headroom is recalled (HeadroomRecall)

    // In these bits: see is_attributed().
    kTracing = 1 << 28,   // history is recorded or observed (TraceRecorder)
    kLabels = 1 << 29,    // blocks count for labels (BlockOwners)
    kTenants = 1 << 30,   // there has been a tenant; stays (start_tenants)
    kCopying = 1u << 31,  // see Note [Copying blocks] (Shards)

    // With one of these no shard is used by itself: the device's own lock is enough.
    kWholeDevice = kPendingFrees | kRouting | kMarkedCapture | kTracing | kAging | kLabels |
                   kWatched | kStaleUses | kTenants | kHeld,
    // Each allocation and free is told to labels, tenants or the history, and is a hit all the
    // same.
    kAttribution = kTracing | kLabels | kTenants,
  };
  // Whether some of these flags are set, and no others but kScarce.
  static bool is_only(uint32_t bits, uint32_t flags) {
    return (bits & flags) != 0 && (bits & ~(flags | kScarce)) == 0;
  }
  // Whether a flag of kAttribution is set without kCopying. With kCopying in the sign one comparison
  // tells it.
  static bool is_attributed(uint32_t bits) {
    return static_cast<int32_t>(bits) >= static_cast<int32_t>(kTracing);
  }
};

// Owns the flags of one device, in a line of their own, because each hit reads them. Any thread.
class SlowPathFlags : private SlowPath {
 public:
  // Any of them.
  bool has(uint32_t flags) const { return (load() & flags) != 0; }
  bool none() const { return load() == 0; }
  uint32_t load() const { return bits_.load(std::memory_order_acquire); }
  void add(uint32_t flags) { bits_.fetch_or(flags); }
  void drop(uint32_t flags) {
    bits_.fetch_and(~flags);
    // A waiter counts itself before it looks at the flags a last time, so either side sees the
    // other.
    if ((flags & kHeld) && waiting_.load() != 0) [[unlikely]]
      futex_wake_all(bits_);
  }
  // pre: the whole device.
  void put(uint32_t flag, bool is_set) {
    if (has(flag) != is_set) is_set ? add(flag) : drop(flag);
  }
  // False: the device is held for as long as a lasting flag is set. True: it was held for a moment,
  // which is over. A call that waited for the device's lock instead could be kept from it by others
  // that take the lock again and again.
  bool wait_while_held() const {
    uint32_t bits = load();
    if (is_held_for_a_moment(bits)) [[unlikely]]
      bits = wait_for_end();
    return (bits & kWholeDevice) == 0;
  }
  // Before the device is held: threads that earlier holds have kept waiting come first.
  void let_starved_go_first() { starved_.let_one_go_first(); }

 private:
  static constexpr int kSpins = 256;

  static bool is_held_for_a_moment(uint32_t bits) { return (bits & kWholeDevice) == kHeld; }
  uint32_t wait_for_end() const;  // gives the flags then

  alignas(64) std::atomic<uint32_t> bits_{0};
  mutable std::atomic<uint32_t> waiting_{0};  // threads in wait_for_end() that may sleep
  mutable StarvedThreads starved_;  // by holds that follow each other (Note [Starved threads])
};

}  // namespace cachalot
