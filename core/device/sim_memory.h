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

  DriverCode reserve(uint64_t size, Address* address);
  DriverCode unreserve(Address address, uint64_t size);
  // handle: a new one.
  DriverCode create(uint64_t size, uint64_t handle);
  void import(uint64_t handle);  // its memory counts where it was made
  bool has_handle(uint64_t handle) const { return handles_.count(handle) != 0; }
  DriverCode release(uint64_t handle);
  DriverCode map(Address address, uint64_t size, uint64_t handle);
  DriverCode unmap(Address address, uint64_t size);

 private:
  const uint64_t capacity_;
  uint64_t used_ = 0;
  AddressSpace addresses_;
  std::unordered_map<Address, uint64_t> allocations_;   // size
  std::unordered_map<Address, uint64_t> reservations_;  // size
  std::unordered_map<uint64_t, uint64_t> handles_;      // size
  std::unordered_map<Address, uint64_t> mappings_;      // size
};

}  // namespace cachalot
