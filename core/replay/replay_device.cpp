// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/replay_device.h"

#include <algorithm>
#include <bit>

#include "alloc/config/constants.h"
#include "base/assert.h"
#include "device/address_range.h"

namespace cachalot {

const char* driver_name(MemoryCall call) {
  switch (call) {
    case MemoryCall::kAlloc:
      return "cuMemAlloc";
    case MemoryCall::kFree:
      return "cuMemFree";
    case MemoryCall::kReserve:
      return "cuMemAddressReserve";
    case MemoryCall::kUnreserve:
      return "cuMemAddressFree";
    case MemoryCall::kCreate:
      return "cuMemCreate";
    case MemoryCall::kRelease:
      return "cuMemRelease";
    case MemoryCall::kMap:
      return "cuMemMap";
    case MemoryCall::kUnmap:
      return "cuMemUnmap";
    case MemoryCall::kSetAccess:
      return "cuMemSetAccess";
  }
  return "";
}

ReplayDevice::ReplayDevice(const SimOptions& options)
    : SimDriver(options),
      offers_(static_cast<size_t>(options.device_count)),
      handed_out_(static_cast<size_t>(options.device_count)) {}

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

std::vector<MemoryCallCount> ReplayDevice::call_counts() {
  const std::lock_guard lock(mutex_);
  std::vector<MemoryCallCount> rows;
  rows.reserve(counts_.size());
  for (const auto& [call, count] : counts_)
    rows.push_back({std::get<0>(call), std::get<1>(call), std::get<2>(call), count});
  return rows;
}

DriverCode ReplayDevice::allocate(int device, uint64_t size, Address* address) {
  const std::lock_guard lock(mutex_);
  count(MemoryCall::kAlloc, size);
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
  hand_out(device, size);
  *address = place;
  return kSuccess;
}

DriverCode ReplayDevice::free(int device, Address address) {
  const std::lock_guard lock(mutex_);
  const uint64_t size = range_size(address);
  count(MemoryCall::kFree, size);
  const DriverCode code = SimDriver::free(device, address);
  if (code != kSuccess) return code;
  calls_.given_back++;
  take_back(device, size);
  remove_range(address);
  return code;
}

DriverCode ReplayDevice::reserve(int device, uint64_t size, Address* address) {
  const std::lock_guard lock(mutex_);
  count(MemoryCall::kReserve, size);
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
  count(MemoryCall::kUnreserve, size);
  const DriverCode code = SimDriver::unreserve(device, address, size);
  if (code == kSuccess) remove_range(address);
  return code;
}

DriverCode ReplayDevice::create(int device, uint64_t size, HandleType type, bool rdma,
                                uint64_t* handle) {
  const DriverCode code = SimDriver::create(device, size, type, rdma, handle);
  const std::lock_guard lock(mutex_);
  count(MemoryCall::kCreate, size);
  if (code != kSuccess) return code;
  calls_.obtained++;
  handle_sizes_[*handle] = size;
  hand_out(device, size);
  return code;
}

DriverCode ReplayDevice::release(int device, uint64_t handle) {
  const DriverCode code = SimDriver::release(device, handle);
  const std::lock_guard lock(mutex_);
  const auto found = handle_sizes_.find(handle);
  const uint64_t size = found == handle_sizes_.end() ? 0 : found->second;
  count(MemoryCall::kRelease, size);
  if (code != kSuccess) return code;
  calls_.given_back++;
  handle_sizes_.erase(handle);
  take_back(device, size);
  return code;
}

DriverCode ReplayDevice::map(int device, Address address, uint64_t size, uint64_t handle) {
  const std::lock_guard lock(mutex_);
  count(MemoryCall::kMap, size);
  return SimDriver::map(device, address, size, handle);
}

DriverCode ReplayDevice::unmap(int device, Address address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  count(MemoryCall::kUnmap, size);
  return SimDriver::unmap(device, address, size);
}

DriverCode ReplayDevice::set_access(int device, Address address, uint64_t size,
                                    int accessing_device) {
  const std::lock_guard lock(mutex_);
  count(MemoryCall::kSetAccess, size);
  return SimDriver::set_access(device, address, size, accessing_device);
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
  places_.push_back(address);
  calls_.segments++;
  calls_.segments_peak = std::max(calls_.segments_peak, calls_.segments);
  CACHALOT_ASSERT(1, calls_.segments == ranges_.size());
}

void ReplayDevice::remove_range(Address address) {
  mutex_.assert_held();
  calls_.segments -= ranges_.erase(address);
  CACHALOT_ASSERT(1, calls_.segments == ranges_.size());
}

uint64_t ReplayDevice::range_size(Address address) const {
  mutex_.assert_held();
  const auto found = ranges_.find(address);
  return found == ranges_.end() ? 0 : found->second;
}

void ReplayDevice::count(MemoryCall call, uint64_t size) {
  mutex_.assert_held();
  if (are_counts_paused_) return;
  counts_[{call, size, gap_us(call)}]++;
  last_calls_us_[call] = work_us_;
}

uint64_t ReplayDevice::gap_us(MemoryCall call) const {
  mutex_.assert_held();
  const auto last = last_calls_us_.find(call);
  if (last == last_calls_us_.end()) return kLongestGapUs;
  return std::bit_floor(std::min(work_us_ - last->second, kLongestGapUs));
}

void ReplayDevice::hand_out(int device, uint64_t size) {
  mutex_.assert_held();
  uint64_t& bytes = handed_out_[static_cast<size_t>(device)];
  bytes += size;
  calls_.peak_device_bytes = std::max(calls_.peak_device_bytes, bytes);
}

void ReplayDevice::take_back(int device, uint64_t size) {
  mutex_.assert_held();
  CACHALOT_ASSERT(1, handed_out_[static_cast<size_t>(device)] >= size);
  handed_out_[static_cast<size_t>(device)] -= size;
}

}  // namespace cachalot
