// SPDX-License-Identifier: MIT OR Apache-2.0
// Where pinned blocks get their memory from [pinned 2].
#pragma once

#include <cstdint>

#include "alloc/pinned/pinned_block.h"
#include "alloc/pinned/pinned_settings.h"
#include "alloc/stats/pinned_stats.h"
#include "base/mutex.h"
#include "device/device.h"

namespace cachalot {

// Note [The region of pinned memory]
// Rationale: many small blocks cost one call of the driver each. `pinned_reserve_segment_size_mb` makes that one call.
// Approach: the region is obtained by the first request that needs memory, and handed out from its begin to its end.
// What is given back of it is not handed out again, and no call is made for it: only its blocks count as freed, as in
// the reference. The whole region goes when the allocator does.
// Limitations: a program that empties its cache again and again uses the region up once, and then obtains blocks one by
// one.
//
// Owns the region that is reserved, and counts what was obtained. Any thread.
class PinnedMemory {
 public:
  explicit PinnedMemory(Driver& driver) : driver_(driver) {}
  ~PinnedMemory();  // gives the region back
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Memory of a block. Each block keeps how it was obtained, since the options may change meanwhile.
  struct Range {
    Address address;
    HostMemoryOrigin origin;
    bool is_in_region;
  };
  // Memory of this size, which is to be counted or undone. Throws Error.
  Range obtain(uint64_t size, const PinnedSettings& settings);
  // The memory has become a block.
  void count(uint64_t size);
  // It has not, and goes back.
  void undo(const Range& range);
  // Throws Error where the driver refuses.
  void give_back(const Range& range, uint64_t size);

  // Adds what was obtained, and the times.
  void add_stats(PinnedStats* stats);
  void reset_peaks();
  void reset_accumulated();

 private:
  // Memory that is handed out from its begin to its end, once.
  struct Region {
    bool is_decided = false;  // whether there is to be one [pinned 2.3]
    Address begin = 0;        // 0: there is none
    Address next = 0;
    Address end = 0;
    HostMemoryOrigin origin{};
  };
  static constexpr uint64_t kRegionAlignment = 4096;

  // Times the call, also where it is for the region.
  Range obtain_from_driver(uint64_t size, const PinnedSettings& settings);
  // pre: region_lock_, which is held over the driver's call: other requests wait for the region then.
  void decide_region(const PinnedSettings& settings);
  Address take_from_region(uint64_t size, const PinnedSettings& settings);

  Driver& driver_;
  Mutex region_lock_{LockRank::kPinnedRegion};
  Region region_;
  Mutex stats_lock_{LockRank::kPinnedStats};
  PinnedStats stats_;
};

}  // namespace cachalot
