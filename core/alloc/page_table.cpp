// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/page_table.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"

namespace cachalot {

Error driver_error(Driver& driver, DriverCode code) {
  return Error(code, "CUDA driver error: " + driver.error_text(code));
}

Error runtime_error(Driver& driver, DriverCode code) {
  return Error(code, "CUDA error: " + driver.error_text(code));
}

PageTable::PageTable(SharedState& shared, int device, Address address, uint64_t page_size,
                     uint64_t pages)
    : shared_(shared),
      driver_(shared.driver),
      device_(device),
      address_(address),
      page_size_(page_size),
      handles_(pages),
      mapped_(pages) {}

DriverCode PageTable::create(HandleType type, uint64_t index) {
  // Network cards shall reach the pages wherever the device supports it; the driver leaves it out
  // elsewhere.
  constexpr bool kRdma = true;
  return driver_.create(device_, page_size_, shared_.handle_types.requested(type), kRdma,
                        &handles_[index]);
}

// 7.2, 4.3: the first answer of the driver decides the handle type of all pages to come; once that
// is fabric, every error counts as out of memory.
DriverCode PageTable::create_probing(uint64_t index, bool* counts_as_out_of_memory) {
  using Probed = HandleTypes::Probed;
  HandleTypes& types = shared_.handle_types;
  const Probed known = types.probed();
  const DriverCode code =
      create(known == Probed::kPosixFd ? HandleType::kPosixFd : HandleType::kFabric, index);
  *counts_as_out_of_memory = known == Probed::kFabric;
  if (known != Probed::kUndecided) return code;
  if (code == kSuccess || (code == kDriverOutOfMemory && !shared_.rules.mend_handle_type)) {
    types.settle(Probed::kFabric);
  }
  if (code == kSuccess || code == kDriverOutOfMemory) return code;
  types.settle(Probed::kPosixFd);
  return create(HandleType::kPosixFd, index);
}

// False: out of memory. What was created before a page that fails is released; after an error other
// than out of memory the reference leaks it (U8).
bool PageTable::create_pages(uint64_t first, uint64_t end) {
  for (uint64_t i = first; i < end; i++) {
    bool counts_as_out_of_memory = false;
    const DriverCode code = type_ ? create(*type_, i) : create_probing(i, &counts_as_out_of_memory);
    if (code == kSuccess) continue;
    if (code != kDriverOutOfMemory && i > first) {
      shared_.differ("U8", format("released %d pages created before one that failed",
                                  static_cast<int>(i - first)));
    }
    release_pages(first, i);
    if (code != kDriverOutOfMemory && !counts_as_out_of_memory) throw driver_error(driver_, code);
    return false;
  }
  return true;
}

void PageTable::map_pages(uint64_t first, uint64_t end, const std::vector<int>& peers) {
  const Address address = address_ + first * page_size_;
  const uint64_t size = (end - first) * page_size_;
  uint64_t mapped = first;
  DriverCode code = kSuccess;
  while (mapped < end && code == kSuccess) {
    code = driver_.map(device_, address_ + mapped * page_size_, page_size_, handles_[mapped]);
    if (code == kSuccess) mapped++;
  }
  if (code == kSuccess) code = driver_.set_access(device_, address, size, device_);
  for (size_t i = 0; i < peers.size() && code == kSuccess; i++) {
    code = driver_.set_access(device_, address, size, peers[i]);
  }
  if (code == kSuccess) return;
  for (uint64_t i = first; i < mapped; i++)
    driver_.unmap(device_, address_ + i * page_size_, page_size_);
  release_pages(first, end);
  throw driver_error(driver_, code);
}

void PageTable::release_pages(uint64_t first, uint64_t end) {
  for (uint64_t i = first; i < end; i++) driver_.release(device_, handles_[i]);
}

bool PageTable::map(Address address, uint64_t size, const std::vector<int>& peers) {
  const uint64_t first = index_of(address);
  const uint64_t end = first + size / page_size_;
  if (shared_.handle_types.are_by_trial() && !type_) {
    type_ = shared_.handle_types.for_device(device_);
  }
  if (!create_pages(first, end)) return false;
  map_pages(first, end, peers);
  for (uint64_t i = first; i < end; i++) mapped_[i] = true;
  mapped_pages_ += end - first;
  return true;
}

void PageTable::unmap(Address address, uint64_t size, Stream stream) {
  const DriverCode code = driver_.stream_synchronize(device_, stream);
  if (code != kSuccess) throw runtime_error(driver_, code);
  const uint64_t first = index_of(address);
  const uint64_t end = first + size / page_size_;
  for (uint64_t i = first; i < end; i++) {
    driver_.unmap(device_, address_ + i * page_size_, page_size_);
    driver_.release(device_, handles_[i]);
    mapped_[i] = false;
  }
  mapped_pages_ -= end - first;
}

std::pair<Address, Address> PageTable::whole_pages(Address address, uint64_t size) const {
  const Address begin = address_ + round_up(address - address_, page_size_);
  const Address end = address_ + round_down(address + size - address_, page_size_);
  return {begin, std::max(begin, end)};
}

void PageTable::give_back() {
  for (uint64_t i = 0; i < mapped_.size() && mapped_pages_ > 0; i++) {
    if (!mapped_[i]) continue;
    driver_.unmap(device_, address_ + i * page_size_, page_size_);
    driver_.release(device_, handles_[i]);
  }
  mapped_pages_ = 0;
}

void PageTable::give_access(int peer) {
  for (uint64_t first = 0; first < mapped_.size();) {
    uint64_t end = first;
    while (end < mapped_.size() && mapped_[end]) end++;
    if (end > first) {
      const DriverCode code = driver_.set_access(device_, address_ + first * page_size_,
                                                 (end - first) * page_size_, peer);
      if (code != kSuccess) throw driver_error(driver_, code);
    }
    first = end + 1;
  }
}

}  // namespace cachalot
