// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory of one device of the host driver: mappings of the process, counted against a capacity.
#pragma once

#include <map>
#include <unordered_map>

#include "base/mutex.h"
#include "base/units.h"
#include "device/device.h"

namespace cachalot {

// Any thread may call anything. A call that fails changes nothing.
class HostMemory {
 public:
  explicit HostMemory(uint64_t capacity) : capacity_(capacity) {}
  ~HostMemory();  // whatever is still there goes back to the system
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  uint64_t total_bytes() const { return capacity_; }
  uint64_t used_bytes() const;

  DriverCode allocate(uint64_t size, Address* address);
  DriverCode free(Address address);

  // Virtual memory: a reservation cannot be touched until a page is mapped there and access is
  // set. A page has one place at a time, and loses its contents with it.
  DriverCode reserve(uint64_t size, Address* address);
  DriverCode unreserve(Address address, uint64_t size);
  DriverCode create(uint64_t size, uint64_t* handle);
  DriverCode release(uint64_t handle);
  DriverCode map(Address address, uint64_t size, uint64_t handle);
  DriverCode unmap(Address address, uint64_t size);
  DriverCode set_access(Address address, uint64_t size);

  static constexpr uint64_t kGranularity = 64 * KiB;  // of virtual memory

 private:
  struct Page {
    uint64_t size = 0;
    Address address = 0;  // 0: not mapped
    bool released = false;
    // A mapping of its size from its creation until it is accessible somewhere: so the system refuses a page
    // that it has no room for when it is created. 0: there is none.
    Address placeholder = 0;
  };

  bool is_reserved(Address address, uint64_t size) const;
  bool is_touched_by_pages(Address address, uint64_t size) const;
  bool is_covered_by_pages(Address address, uint64_t size) const;
  void drop_placeholder(Page& page);
  void drop_if_unused(uint64_t handle);

  const uint64_t capacity_;
  mutable Mutex mutex_{LockRank::kHostMemory};
  uint64_t used_ = 0;
  std::unordered_map<Address, uint64_t> allocations_;  // size
  std::map<Address, uint64_t> reservations_;           // size
  std::unordered_map<uint64_t, Page> pages_;           // by handle
  std::map<Address, uint64_t> mapped_;                 // handle
  uint64_t pages_made_ = 0;
};

}  // namespace cachalot
