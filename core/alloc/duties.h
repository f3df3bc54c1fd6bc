// SPDX-License-Identifier: MIT OR Apache-2.0
// Reasons why a call is more than a search in the cache; 0 is the usual case.
//
// A call reads them under the lock of its shard, so whoever sets one and then has held the lock of
// each shard once knows that everybody sees it (see Note [Shards] in shard.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/pause.h"

namespace cachalot {

// Who reads them inherits the names.
struct Duty {
  enum : uint32_t {
    kPendingFrees = 1,   // events or deferred frees are waiting
    kRouting = 2,        // pools are being routed to
    kMarkedCapture = 4,  // R10
    kTracing = 8,        // history is recorded or observed
    kAging = 16,         // a limit and a garbage-collection threshold are set (6.2)
    kRounding = 128,     // sizes are rounded by divisions
    kLabels = 256,
    kContexts = 512,    // blocks may keep contexts; stays once they did
    kMarks = 1024,      // free blocks have to be marked with their age; stays once ages counted
    kWatched = 2048,    // see Note [Memory watch]; stays
    kStaleUses = 4096,  // the reference wrongly remembers uses (U2)
    kTenants = 8192,    // there has been a tenant; stays

    kHeld = 1 << 28,       // a call has the whole device
    kScarce = 1 << 29,     // see Note [Peaks]
    kReading = 1 << 30,    // see Note [Pictures]
    kPicturing = 1 << 27,  // see Note [Block pictures]

    // With one of these no shard is used by itself: the device's own lock is enough.
    kWholeDevice = kPendingFrees | kRouting | kMarkedCapture | kTracing | kAging | kLabels |
                   kWatched | kStaleUses | kTenants | kHeld,
    kMomentary = kHeld | kScarce | kReading | kPicturing,  // those that no setting asks for
  };
};

class Duties : private Duty {
 public:
  bool has(uint32_t duties) const { return (load() & duties) != 0; }
  bool none() const { return load() == 0; }
  uint32_t load() const { return bits_.load(std::memory_order_acquire); }
  void add(uint32_t duties) { bits_.fetch_or(duties); }
  void drop(uint32_t duties) {
    bits_.fetch_and(~duties);
    if (duties & kHeld) bits_.notify_all();
  }
  // False: the device is held for as long as a lasting duty is set. True: it was held for a moment,
  // which is over. Whoever waited for the device's lock instead could be kept from it by others who
  // take it again and again.
  bool wait_while_held() const {
    uint32_t bits = load();
    for (int spins = 0; (bits & kWholeDevice) == kHeld; bits = load()) {
      if (spins++ < kSpins) {
        pause_briefly(4);
      } else {
        bits_.wait(bits);
      }
    }
    return (bits & kWholeDevice) == 0;
  }
  // Those that settings ask for. pre: the whole device.
  void set(uint32_t duties) { bits_.store((load() & kMomentary) | duties); }

 private:
  static constexpr int kSpins = 256;

  alignas(64) std::atomic<uint32_t> bits_{0};
};

}  // namespace cachalot
