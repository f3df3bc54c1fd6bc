// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeps what a program has mapped itself when the program gives it back, and gives it to the next that asks for the same.
//
// Note [Cached mappings]
// Rationale: a program that maps each of its blocks (XLA's "platform" allocator) makes seven calls of the driver for
// each, some 90 microseconds. A free does not wait there, as cuMemFree does, and the driver protects nobody who uses the
// memory still, so a cache has no work to wait for.
// Approach: an entry is a reserved range with one handle mapped over all of it. The program gives it back in parts
// (unmap, release, free of the range), in any order; the driver hears of none. An entry of which the program has no part
// is free: it serves a range and a handle of its size and properties, which a program asks for one after the other. What
// fits into no such course (parts of ranges, one handle at two places, handles that others have) is settled: the driver
// is told what the program has said so far, and the memory is the driver's alone from then on.
// Limitations: what a program has unmapped can still be reached, and what it maps anew is not zero.
// Bound: before the driver is asked for a handle, memory goes back until there is no more than five quarters of the
// most that the program has had, as with whole blocks (alloc/pools/whole_blocks.h). None goes back while a stream is
// captured.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "driver_types.h"

namespace cachalot::proxy {

// Any thread. Its calls stand for the driver's of those names. Where there is no memory for its tables, it leaves what it
// was about to note to the driver.
class MappingCache {
 public:
  Result reserve(DeviceAddress* out, uint64_t size, uint64_t alignment, DeviceAddress hint,
                 uint64_t flags) noexcept;
  Result free_range(DeviceAddress address, uint64_t size) noexcept;
  Result create(AllocationHandle* out, uint64_t size, const AllocationProperties* properties,
                uint64_t flags) noexcept;
  Result release(AllocationHandle handle) noexcept;
  Result map(DeviceAddress address, uint64_t size, uint64_t offset, AllocationHandle handle,
             uint64_t flags) noexcept;
  Result set_access(DeviceAddress address, uint64_t size, const AccessDescriptor* access,
                    size_t count) noexcept;
  Result unmap(DeviceAddress address, uint64_t size) noexcept;

  // The memory is about to be had by others too, whose end this would not see.
  void leave(AllocationHandle handle) noexcept;
  void leave_range(DeviceAddress address, uint64_t size) noexcept;
  // A context of the device ends.
  void leave_device(DeviceOrdinal device) noexcept;
  // From now on everything is left to the driver.
  void stop() noexcept;

  // What could go back.
  uint64_t cached_bytes(DeviceOrdinal device) noexcept;
  // Gives it back. Gives whether there was any.
  bool empty(DeviceOrdinal device) noexcept;
  // Gives back what has not been used for so long.
  void trim(std::chrono::seconds idle) noexcept;

  struct Counts {
    uint64_t requests = 0;  // for handles, that were granted
    uint64_t created = 0;   // of them by the driver
  };
  Counts counts() noexcept;

 private:
  using Addresses = std::list<DeviceAddress>;
  using BySize = std::multimap<uint64_t, DeviceAddress>;

  struct Memory {
    uint64_t size;
    AllocationProperties properties;
  };
  // has_..., is_mapped: as the program sees it. The driver has the range, and the handle mapped there, all the time.
  struct Entry {
    Memory memory;
    AllocationHandle handle;
    std::vector<AccessDescriptor> access{};  // that the driver was told of
    bool has_range = true;
    bool has_handle = true;
    bool is_mapped = true;
    // The entry's node of free_ and of started_, with where it is while it is there: so nothing is allocated later.
    BySize::node_type free_node{};
    BySize::iterator free_at{};
    Addresses started_node{};
    Addresses::iterator started_at{};
    std::thread::id starter{};
    // When the program gave the memory back last.
    uint64_t clock = 0;
    std::chrono::steady_clock::time_point time{};

    // The memory could go back.
    bool is_spare() const { return !has_handle && !is_mapped; }
    bool is_free() const { return is_spare() && !has_range; }
    bool is_on(DeviceOrdinal device) const { return memory.properties.location.id == device; }
  };
  using Entries = std::map<DeviceAddress, Entry>;

  Entries::iterator find(AllocationHandle handle);
  // The entry that holds the address, or else the first behind it.
  Entries::iterator first_around(DeviceAddress address);
  // For one part of an entry. other: the part that the thread may have taken already.
  template <class Fits>
  Entries::iterator find_for(uint64_t size, bool Entry::*other, Fits fits);
  Entries::iterator find_spare(uint64_t size, const AllocationProperties& properties);
  // The program gets the part.
  void take(Entries::iterator entry, bool Entry::*part);
  void give_back(Entries::iterator entry, bool Entry::*part);
  void start(Entries::iterator entry);
  void end_start(Entry* entry);
  void add(DeviceAddress address, AllocationHandle handle, const Memory& memory);
  // The driver is told what the program has said.
  void settle(Entries::iterator entry);
  // Those that reach into the range.
  void settle_around(DeviceAddress address, uint64_t size);
  void settle_free_around(DeviceAddress address, uint64_t size);
  template <class Matches>
  bool settle_spare(Matches matches);
  void keep_bound(uint64_t size);
  void forget_range_around(DeviceAddress address);
  void forget_handle(AllocationHandle handle);
  void count_had(uint64_t size);

  std::mutex mutex_;  // before the lock of the captures
  bool is_stopped_ = false;
  Entries entries_;
  std::unordered_map<AllocationHandle, DeviceAddress> places_;  // of the entries' handles
  BySize free_;                                                 // those freed last come last
  Addresses started_;  // a thread has the range or the handle, and asks for the other one next
  std::map<DeviceAddress, uint64_t> ranges_;    // in which nothing is mapped, and their sizes
  std::map<AllocationHandle, Memory> handles_;  // that are mapped nowhere
  uint64_t had_ = 0;   // bytes of memory that the program has or has mapped
  uint64_t peak_ = 0;  // of had_
  uint64_t spare_bytes_ = 0;
  uint64_t clock_ = 0;  // counts returns of memory
  uint64_t requests_ = 0;
  uint64_t created_ = 0;
};

}  // namespace cachalot::proxy
