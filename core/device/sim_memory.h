// SPDX-License-Identifier: MIT OR Apache-2.0
// The accounts of a simulated device's memory. Nothing stands behind its addresses.
#pragma once

#include <unordered_map>
#include <utility>

#include "base/assert.h"
#include "device/address_space.h"
#include "device/device.h"

namespace cachalot {

// Sizes count as they were asked for. A refused call changes nothing.
class SimMemory {
 public:
  SimMemory(uint64_t capacity, AddressSpace addresses)
      : capacity_(capacity), addresses_(std::move(addresses)) {}

  AddressSpace& addresses() { return addresses_; }
  uint64_t total_bytes() const { return capacity_; }
  uint64_t free_bytes() const {
    CACHALOT_ASSERT(1, used_ <= capacity_);
    return capacity_ - used_;
  }

  DriverCode allocate(uint64_t size, Address* address);
  DriverCode free(Address address);

  bool has_allocation(Address address) const { return allocations_.contains(address); }
  // Addresses for an allocation once more, as another process would have them.
  DriverCode open(Address allocation, Address* address);
  DriverCode close(Address address);

  DriverCode reserve(uint64_t size, Address* address);
  DriverCode unreserve(Address address, uint64_t size);
  // handle: a new one.
  DriverCode create(uint64_t size, uint64_t handle);
  // Its memory counts where it was made.
  void import(uint64_t handle);
  // Not of one that has been released.
  bool has_handle(uint64_t handle) const;
  DriverCode release(uint64_t handle);
  DriverCode map(Address address, uint64_t size, uint64_t handle);
  DriverCode unmap(Address address, uint64_t size);

 private:
  struct Handle {
    uint64_t size = 0;
    uint64_t mappings = 0;
    bool is_released = false;
  };
  struct Mapping {
    uint64_t size;
    uint64_t handle;
  };

  using Handles = std::unordered_map<uint64_t, Handle>;

  void forget_if_unused(Handles::iterator handle);

  const uint64_t capacity_;
  uint64_t used_ = 0;
  AddressSpace addresses_;
  std::unordered_map<Address, uint64_t> allocations_;   // size
  std::unordered_map<Address, uint64_t> opened_;        // size
  std::unordered_map<Address, uint64_t> reservations_;  // size
  Handles handles_;
  std::unordered_map<Address, Mapping> mappings_;
};

}  // namespace cachalot
