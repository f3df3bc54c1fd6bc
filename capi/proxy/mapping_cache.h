// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeps what a program has mapped itself when the program gives it back, and gives it to the next that asks for the same.
//
// Note [Cached mappings]
// Rationale: a program that maps each of its blocks (XLA's "platform" allocator) makes seven calls of the driver for
// each, some 90 microseconds. A free does not wait there, as cuMemFree does, and the driver protects nobody who uses the
// memory still, so a cache has no work to wait for.
// Approach: an entry is a reserved range with one handle mapped over all of it. The program gives it back in parts
// (unmap, release, free of the range), in any order; the driver hears of none. When the program has no part any more,
// the entry is cached, and serves a range and a handle of its size and properties together. What fits into no such
// course (parts of ranges, one handle at two places, handles that others have) is settled: the driver is told what the
// program has said so far, and the memory is the driver's alone from then on.
// Limitations: what a program has unmapped can still be reached, and what it maps anew is not zero.
// Bound: before the driver is asked for a handle, entries go back until there is no more than five quarters of the
// most that the program has had, as with whole blocks (alloc/pools/whole_blocks.h).
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver_types.h"

namespace cachalot::proxy {

// Any thread. Its calls stand for the driver's of those names.
class MappingCache {
 public:
  Result reserve(DeviceAddress* out, uint64_t size, uint64_t alignment, DeviceAddress hint,
                 uint64_t flags);
  Result free_range(DeviceAddress address, uint64_t size);
  Result create(AllocationHandle* out, uint64_t size, const AllocationProperties* properties,
                uint64_t flags);
  Result release(AllocationHandle handle);
  Result map(DeviceAddress address, uint64_t size, uint64_t offset, AllocationHandle handle,
             uint64_t flags);
  Result set_access(DeviceAddress address, uint64_t size, const AccessDescriptor* access,
                    size_t count);
  Result unmap(DeviceAddress address, uint64_t size);

  // The memory is about to be had by others too, which this would not see give it back.
  void leave(AllocationHandle handle);
  void leave_range(DeviceAddress address, uint64_t size);
  // Of a device whose context ends.
  void leave_device(DeviceOrdinal device);
  // From now on everything is left to the driver.
  void stop();

  uint64_t cached_bytes(DeviceOrdinal device);
  // Gives back what is cached on the device. Gives whether there was any.
  bool empty(DeviceOrdinal device);
  // Gives back what has not been used for so long.
  void trim(std::chrono::seconds idle);

  struct Counts {
    uint64_t requests;  // for handles
    uint64_t created;   // of them by the driver
    uint64_t peak;      // bytes that the program had
  };
  Counts counts();

 private:
  struct Memory {
    uint64_t size;
    AllocationProperties properties;
  };
  // has_..., is_mapped: as the program sees it. The driver has the range, and the handle mapped there, all the time.
  struct Entry {
    Memory memory;
    AllocationHandle handle;
    std::vector<AccessDescriptor> access;  // that the driver was told of
    bool has_range = true;
    bool has_handle = true;
    bool is_mapped = true;
    std::thread::id taker{};  // has it taken from the cache, and not mapped it yet
    uint64_t clock = 0;       // when it became cached
    std::chrono::steady_clock::time_point time{};

    bool has_memory() const { return has_handle || is_mapped; }
    bool is_cached() const { return !has_memory() && !has_range; }
  };
  using Entries = std::map<DeviceAddress, Entry>;

  Entries::iterator find(AllocationHandle handle);
  // What one of the program's threads has taken half of, else what is cached.
  template <class Fits>
  Entries::iterator find_for(uint64_t size, bool Entry::*half, Fits fits);
  void take(Entries::iterator entry, bool Entry::*part);
  void give(Entries::iterator entry, bool Entry::*part);
  // The driver is told what the program has said.
  void settle(Entries::iterator entry);
  void settle_around(DeviceAddress address, uint64_t size);
  template <class Matches>
  bool settle_cached(Matches matches);
  void make_room_for(uint64_t size);
  void forget_range_around(DeviceAddress address);
  void forget_handle(AllocationHandle handle);
  void has_more(uint64_t size);

  std::mutex mutex_;
  bool is_stopped_ = false;
  Entries entries_;
  std::unordered_map<AllocationHandle, DeviceAddress> places_;  // of the entries' handles
  std::multimap<uint64_t, DeviceAddress> cached_;  // by size; those freed last come last
  std::list<DeviceAddress> halves_;                // of which a thread has taken one half
  std::map<DeviceAddress, uint64_t> ranges_;       // that nothing is mapped in, and their sizes
  std::map<AllocationHandle, Memory> handles_;     // that are mapped nowhere
  uint64_t had_ = 0;   // bytes of handles that the program has or has mapped
  uint64_t peak_ = 0;  // of had_
  uint64_t cached_bytes_ = 0;
  uint64_t clock_ = 0;  // counts entries that became cached
  uint64_t requests_ = 0;
  uint64_t created_ = 0;
};

}  // namespace cachalot::proxy
