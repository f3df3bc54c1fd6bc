// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory of one device of the host driver: mappings of the process, counted against a capacity.
#pragma once

#include <map>
#include <unordered_map>

#include "base/mutex.h"
#include "base/units.h"
#include "device/device.h"
#include "device/memory_file.h"

namespace cachalot {

// Any thread may call anything. A call that fails changes nothing.
//
// Note [Memory for other processes]
// Rationale: memory that a process has for itself cannot become shared later: other threads write to it while it would
// be moved. Memory that is shared from the start takes a descriptor for each allocation and page, and a forked child
// sees what its parent writes.
// Approach: the maker of the driver chooses. By default memory is the process's own, and no handle of it can be had.
class HostMemory {
 public:
  // is_shared: other processes can be given handles of all memory.
  explicit HostMemory(uint64_t capacity, bool is_shared = false)
      : capacity_(capacity), is_shared_(is_shared) {}
  ~HostMemory();  // whatever is still there goes back to the system
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  uint64_t total_bytes() const { return capacity_; }
  uint64_t used_bytes() const;

  DriverCode allocate(uint64_t size, Address* address);
  DriverCode free(Address address);

  // Memory between processes, in whole allocations. open() maps one of another process; its bytes count in that process
  // only.
  DriverCode get_handle(Address address, ShareableHandle* handle) const;
  DriverCode open(const ShareableHandle& handle, Address* address);
  DriverCode close(Address address);

  // Virtual memory: a reservation cannot be touched until a page is mapped there and access is
  // set. A page has one place at a time, and loses its contents with it.
  DriverCode reserve(uint64_t size, Address* address);
  DriverCode unreserve(Address address, uint64_t size);
  DriverCode create(uint64_t size, uint64_t* handle);
  DriverCode release(uint64_t handle);
  DriverCode map(Address address, uint64_t size, uint64_t handle);
  DriverCode unmap(Address address, uint64_t size);
  DriverCode set_access(Address address, uint64_t size);
  // The caller owns the descriptor in the handle, before and after.
  DriverCode export_page(uint64_t handle, ShareableHandle* shareable) const;
  DriverCode import_page(const ShareableHandle& shareable, uint64_t* handle);

  static constexpr uint64_t kGranularity = 64 * KiB;  // of virtual memory

 private:
  struct Allocation {
    uint64_t size = 0;
    MemoryFile file;  // of shared memory only
    bool is_opened = false;
  };
  struct Page {
    uint64_t size = 0;
    Address address = 0;  // 0: not mapped
    bool released = false;
    bool is_imported = false;  // counts where it was created
    MemoryFile file;           // of shared memory only: it keeps the contents where the page moves
    // A mapping of its size from its creation until it is accessible somewhere: so the system refuses a page
    // that it has no room for when it is created. 0: there is none.
    Address placeholder = 0;
  };

  DriverCode take_back(Address address, bool is_opened);
  bool back(Page& page, uint64_t size) const;
  bool is_reserved(Address address, uint64_t size) const;
  bool is_touched_by_pages(Address address, uint64_t size) const;
  bool is_covered_by_pages(Address address, uint64_t size) const;
  void drop_placeholder(Page& page);
  void drop_if_unused(uint64_t handle);

  const uint64_t capacity_;
  const bool is_shared_;
  mutable Mutex mutex_{LockRank::kHostMemory};
  uint64_t used_ = 0;
  std::unordered_map<Address, Allocation> allocations_;
  std::map<Address, uint64_t> reservations_;  // size
  std::unordered_map<uint64_t, Page> pages_;  // by handle
  std::map<Address, uint64_t> mapped_;        // handle
  uint64_t pages_made_ = 0;
};

}  // namespace cachalot
