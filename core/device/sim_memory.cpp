// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_memory.h"

namespace cachalot {
namespace {

using Sizes = std::unordered_map<uint64_t, uint64_t>;

// Removes a row if it has that size.
bool remove(Sizes* sizes, uint64_t key, uint64_t size) {
  const auto row = sizes->find(key);
  if (row == sizes->end() || row->second != size) return false;
  sizes->erase(row);
  return true;
}

// An address that has a row; where there is no memory for the row nothing has changed.
std::optional<Address> take_with_row(AddressSpace& addresses, Sizes* sizes, uint64_t size) {
  const auto place = addresses.take(size);
  if (!place) return {};
  try {
    (*sizes)[*place] = size;
  } catch (...) {
    addresses.put_back(*place);
    throw;
  }
  return place;
}

}  // namespace

DriverCode SimMemory::allocate(uint64_t size, Address* address) {
  if (size > free_bytes()) return kDriverOutOfMemory;
  const auto place = take_with_row(addresses_, &allocations_, size);
  if (!place) return kDriverOutOfMemory;
  used_ += size;
  *address = *place;
  return kSuccess;
}

DriverCode SimMemory::free(Address address) {
  const auto allocation = allocations_.find(address);
  if (allocation == allocations_.end()) return kInvalidValue;
  addresses_.put_back(address);
  CACHALOT_ASSERT(1, allocation->second <= used_);
  used_ -= allocation->second;
  allocations_.erase(allocation);
  return kSuccess;
}

DriverCode SimMemory::open(Address allocation, Address* address) {
  const auto found = allocations_.find(allocation);
  if (found == allocations_.end()) return kInvalidHandle;
  const auto place = take_with_row(addresses_, &opened_, found->second);
  if (!place) return kDriverOutOfMemory;
  *address = *place;
  return kSuccess;
}

DriverCode SimMemory::close(Address address) {
  if (opened_.erase(address) == 0) return kInvalidValue;
  addresses_.put_back(address);
  return kSuccess;
}

DriverCode SimMemory::reserve(uint64_t size, Address* address) {
  const auto place = take_with_row(addresses_, &reservations_, size);
  if (!place) return kDriverOutOfMemory;
  *address = *place;
  return kSuccess;
}

DriverCode SimMemory::unreserve(Address address, uint64_t size) {
  if (!remove(&reservations_, address, size)) return kInvalidValue;
  addresses_.put_back(address);
  return kSuccess;
}

DriverCode SimMemory::create(uint64_t size, uint64_t handle) {
  CACHALOT_ASSERT(1, !has_handle(handle));
  if (size > free_bytes()) return kDriverOutOfMemory;
  handles_[handle] = {.size = size};
  used_ += size;
  return kSuccess;
}

void SimMemory::import(uint64_t handle) {
  CACHALOT_ASSERT(1, !has_handle(handle));
  handles_[handle] = {};
}

bool SimMemory::has_handle(uint64_t handle) const {
  const auto found = handles_.find(handle);
  return found != handles_.end() && !found->second.is_released;
}

DriverCode SimMemory::release(uint64_t handle) {
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.is_released) return kInvalidValue;
  found->second.is_released = true;
  forget_if_unused(found);
  return kSuccess;
}

DriverCode SimMemory::map(Address address, uint64_t size, uint64_t handle) {
  if (!has_handle(handle) || !mappings_.try_emplace(address, Mapping{size, handle}).second)
    return kInvalidValue;
  handles_.at(handle).mappings++;
  return kSuccess;
}

DriverCode SimMemory::unmap(Address address, uint64_t size) {
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end() || mapping->second.size != size) return kInvalidValue;
  const auto handle = handles_.find(mapping->second.handle);
  mappings_.erase(mapping);
  handle->second.mappings--;
  forget_if_unused(handle);
  return kSuccess;
}

// As on a GPU, memory stays while it is mapped somewhere.
void SimMemory::forget_if_unused(Handles::iterator handle) {
  if (!handle->second.is_released || handle->second.mappings != 0) return;
  CACHALOT_ASSERT(1, handle->second.size <= used_);
  used_ -= handle->second.size;
  handles_.erase(handle);
}

}  // namespace cachalot
