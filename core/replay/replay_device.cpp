// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/replay_device.h"

#include <algorithm>

#include "alloc/config/constants.h"
#include "base/assert.h"
#include "device/address_range.h"

namespace cachalot {

ReplayDevice::ReplayDevice(const SimOptions& options)
    : SimDriver(options), offers_(static_cast<size_t>(options.device_count)) {}

void ReplayDevice::offer_segment(int device, Address address) {
  const std::lock_guard lock(mutex_);
  offers_[static_cast<size_t>(device)].segments.push_back(address);
}

void ReplayDevice::offer_mapping(int device, Address address) {
  const std::lock_guard lock(mutex_);
  if (!is_in_use(address)) offers_[static_cast<size_t>(device)].mappings.push_back(address);
}

void ReplayDevice::withdraw_offers() {
  const std::lock_guard lock(mutex_);
  for (Offers& offers : offers_) offers = {};
}

MemoryCalls ReplayDevice::calls() {
  const std::lock_guard lock(mutex_);
  return calls_;
}

DriverCode ReplayDevice::allocate(int device, uint64_t size, Address* address) {
  const std::lock_guard lock(mutex_);
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  memory_info(device, &free_bytes, &total_bytes);
  if (size <= free_bytes) place_next(device, &offers_[static_cast<size_t>(device)].segments, size);
  Address place = 0;
  if (const DriverCode code = SimDriver::allocate(device, size, &place)) return code;
  if (!is_free(place, size)) {
    SimDriver::free(device, place);
    return kDriverOutOfMemory;
  }
  calls_.obtained++;
  add_range(place, size);
  *address = place;
  return kSuccess;
}

DriverCode ReplayDevice::free(int device, Address address) {
  const std::lock_guard lock(mutex_);
  const DriverCode code = SimDriver::free(device, address);
  if (code != kSuccess) return code;
  calls_.given_back++;
  remove_range(address);
  return code;
}

DriverCode ReplayDevice::reserve(int device, uint64_t size, Address* address) {
  const std::lock_guard lock(mutex_);
  std::deque<Address>& mappings = offers_[static_cast<size_t>(device)].mappings;
  while (!mappings.empty() && is_in_use(mappings.front())) mappings.pop_front();
  place_next(device, &mappings, size);
  Address place = 0;
  if (const DriverCode code = SimDriver::reserve(device, size, &place)) return code;
  if (!is_free(place, size)) {
    SimDriver::unreserve(device, place, size);
    return kDriverOutOfMemory;
  }
  add_range(place, size);
  *address = place;
  return kSuccess;
}

DriverCode ReplayDevice::unreserve(int device, Address address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  const DriverCode code = SimDriver::unreserve(device, address, size);
  if (code == kSuccess) remove_range(address);
  return code;
}

DriverCode ReplayDevice::create(int device, uint64_t size, HandleType type, bool rdma,
                                uint64_t* handle) {
  const DriverCode code = SimDriver::create(device, size, type, rdma, handle);
  const std::lock_guard lock(mutex_);
  if (code == kSuccess) calls_.obtained++;
  return code;
}

DriverCode ReplayDevice::release(int device, uint64_t handle) {
  const DriverCode code = SimDriver::release(device, handle);
  const std::lock_guard lock(mutex_);
  if (code == kSuccess) calls_.given_back++;
  return code;
}

// Also asked for places that the simulated device chose: devices do not know each other's given
// ones. A recorded address can be anything.
bool ReplayDevice::is_free(Address address, uint64_t size) const {
  mutex_.assert_held();
  if (!is_range(address, size, kMinBlockSize)) return false;
  const auto above = ranges_.lower_bound(address);
  if (above != ranges_.end() && above->first - address < size) return false;
  return !is_in_use(address);
}

bool ReplayDevice::is_in_use(Address address) const {
  mutex_.assert_held();
  const auto above = ranges_.upper_bound(address);
  if (above == ranges_.begin()) return false;
  const auto& [begin, size] = *std::prev(above);
  return address - begin < size;
}

void ReplayDevice::place_next(int device, std::deque<Address>* offers, uint64_t size) {
  if (offers->empty()) return;
  const Address address = offers->front();
  offers->pop_front();
  if (is_free(address, size)) machine().give_addresses(device, {&address, 1});
}

void ReplayDevice::add_range(Address address, uint64_t size) {
  CACHALOT_ASSERT(1, is_free(address, size));
  ranges_[address] = size;
  calls_.segments++;
  calls_.segments_peak = std::max(calls_.segments_peak, calls_.segments);
  CACHALOT_ASSERT(1, calls_.segments == ranges_.size());
}

void ReplayDevice::remove_range(Address address) {
  mutex_.assert_held();
  calls_.segments -= ranges_.erase(address);
  CACHALOT_ASSERT(1, calls_.segments == ranges_.size());
}

}  // namespace cachalot
