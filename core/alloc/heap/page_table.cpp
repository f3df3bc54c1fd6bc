// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/page_table.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "base/units.h"
#include "device/driver_error.h"

namespace cachalot {

// The addresses are reserved by the caller, which gives them back after the table has gone.
PageTable::PageTable(Driver& driver, HandleTypes& types, const Log& log, int device,
                     Address address, uint64_t page_size, uint64_t pages)
    : driver_(driver),
      types_(types),
      log_(log),
      device_(device),
      address_(address),
      page_size_(page_size),
      pages_(pages) {
  CACHALOT_ASSERT(1, driver_.supports_virtual_memory());
  CACHALOT_ASSERT(1, address > 0 && page_size > 0 && pages > 0);
}

// For assertions: callers cut their ranges to pages.
bool PageTable::is_whole_pages(Address address, uint64_t size) const {
  if (address < address_ || (address - address_) % page_size_ != 0) return false;
  return size % page_size_ == 0 && address - address_ + size <= reserved_bytes();
}

// For assertions; looks at every mapped page.
uint64_t PageTable::mapped_between(uint64_t first, uint64_t end) const {
  uint64_t count = 0;
  for_each_mapped([&](uint64_t index, const Group&) { count += index >= first && index < end; });
  return count;
}

// No group may lack a mapped page: a program can move through the whole range, and all would add up.
bool PageTable::is_sound() const {
  return mapped_between(0, pages_) == mapped_pages_ &&
         std::all_of(groups_.begin(), groups_.end(),
                     [](const auto& group) { return group.second.mapped != 0; });
}

// Visits the indexes of mapped pages in their order.
template <class Visit>
void PageTable::for_each_mapped(Visit visit) const {
  for (const auto& [number, group] : groups_) {
    for (uint64_t bits = group.mapped; bits != 0; bits &= bits - 1)
      visit(number * kGroup + static_cast<uint64_t>(std::countr_zero(bits)), group);
  }
}

// Forgets the groups of the pages from first to end that have no mapped page.
void PageTable::drop_unused(uint64_t first, uint64_t end) {
  const auto last = groups_.upper_bound((end - 1) / kGroup);
  for (auto group = groups_.lower_bound(first / kGroup); group != last;)
    group = group->second.mapped == 0 ? groups_.erase(group) : std::next(group);
}

DriverCode PageTable::create(HandleType type, uint64_t* handle) {
  // Lets network cards reach the pages [exp 4.2]. A device without that support ignores the flag.
  constexpr bool kRdma = true;
  return driver_.create(device_, page_size_, types_.requested(type), kRdma, handle);
}

// [exp 7.2, 4.3] The first answer of the driver decides the handle type of all later pages; once that
// is fabric, every error counts as out of memory.
DriverCode PageTable::create_probing(uint64_t* handle, bool* counts_as_out_of_memory) {
  using Probed = HandleTypes::Probed;
  const Probed known = types_.probed();
  const DriverCode code =
      create(known == Probed::kPosixFd ? HandleType::kPosixFd : HandleType::kFabric, handle);
  *counts_as_out_of_memory = known == Probed::kFabric;
  if (known != Probed::kUndecided) return code;
  if (code == kSuccess || (code == kDriverOutOfMemory && types_.out_of_memory_decides())) {
    types_.decide(Probed::kFabric);
  }
  if (code == kSuccess || code == kDriverOutOfMemory) return code;
  types_.decide(Probed::kPosixFd);
  return create(HandleType::kPosixFd, handle);
}

DriverCode PageTable::create(uint64_t* handle, bool* counts_as_out_of_memory) {
  return type_ ? create(*type_, handle) : create_probing(handle, counts_as_out_of_memory);
}

// Decided once a segment: a shared segment has one type for all of its pages (R60, R61).
void PageTable::decide_type() {
  if (types_.are_by_trial() && !type_) type_ = types_.for_device(device_);
}

// False: out of memory. Releases the pages created before one that fails; after an error other than
// out of memory the reference leaks them (U8).
bool PageTable::create_pages(uint64_t first, uint64_t end) {
  for (uint64_t i = first; i < end; i++) {
    bool counts_as_out_of_memory = false;
    DriverCode code = kSuccess;
    try {
      code = create(&handle(i), &counts_as_out_of_memory);
    } catch (...) {
      release_pages(first, i);
      throw;
    }
    if (code == kSuccess) continue;
    if (code != kDriverOutOfMemory && i > first) {
      log_.differ("U8", format("released %d pages created before one that failed",
                               static_cast<int>(i - first)));
    }
    release_pages(first, i);
    if (code != kDriverOutOfMemory && !counts_as_out_of_memory) throw driver_error(driver_, code);
    return false;
  }
  return true;
}

// [exp 4.2] Maps page by page, then gives access to the whole range in one call for each device. A
// refusal unmaps everything, so that the call has changed nothing.
void PageTable::map_range(uint64_t first, uint64_t end, const std::vector<int>& peers) {
  const Address address = address_ + first * page_size_;
  const uint64_t size = (end - first) * page_size_;
  uint64_t mapped = first;
  DriverCode code = kSuccess;
  const auto take_back = [&] {
    for (uint64_t i = first; i < mapped; i++)
      driver_.unmap(device_, address_ + i * page_size_, page_size_);
  };
  try {
    for (; mapped < end && code == kSuccess; mapped += code == kSuccess)
      code = driver_.map(device_, address_ + mapped * page_size_, page_size_, handle(mapped));
    // The own device first, then the peers in the order in which access was asked for.
    if (code == kSuccess) code = driver_.set_access(device_, address, size, device_);
    for (size_t i = 0; i < peers.size() && code == kSuccess; i++)
      code = driver_.set_access(device_, address, size, peers[i]);
    if (code != kSuccess) throw driver_error(driver_, code);
  } catch (...) {
    take_back();
    throw;
  }
}

// Answers of the driver are ignored: there is no way to keep a handle that the driver does not
// release.
void PageTable::release_pages(uint64_t first, uint64_t end) {
  for (uint64_t i = first; i < end; i++) driver_.release(device_, handle(i));
}

bool PageTable::map(Address address, uint64_t size, const std::vector<int>& peers) {
  CACHALOT_ASSERT(1, size > 0 && is_whole_pages(address, size));
  const uint64_t first = index_of(address);
  const uint64_t end = first + size / page_size_;
  CACHALOT_ASSERT(2, mapped_between(first, end) == 0);
  decide_type();
  try {
    // Makes the groups, which needs memory of the host: after the driver's calls it could not be had
    // without taking them back.
    for (uint64_t i = first; i < end; i++) handle(i) = 0;
    if (!create_pages(first, end)) {
      drop_unused(first, end);
      return false;
    }
    try {
      map_range(first, end, peers);
    } catch (...) {
      release_pages(first, end);
      throw;
    }
  } catch (...) {
    drop_unused(first, end);
    throw;
  }
  mark_mapped(first, end);
  return true;
}

// Once all driver calls have succeeded.
void PageTable::mark_mapped(uint64_t first, uint64_t end) {
  for (uint64_t i = first; i < end; i++) groups_[i / kGroup].mapped |= uint64_t{1} << (i % kGroup);
  mapped_pages_ += end - first;
  CACHALOT_ASSERT(2, is_sound());
}

void PageTable::mark_unmapped(uint64_t first, uint64_t end) {
  for (uint64_t i = first; i < end; i++)
    groups_[i / kGroup].mapped &= ~(uint64_t{1} << (i % kGroup));
  drop_unused(first, end);
  mapped_pages_ -= end - first;
  CACHALOT_ASSERT(2, is_sound());
}

// ---- Pages that move

bool PageTable::create_page(uint64_t* handle) {
  decide_type();
  bool counts_as_out_of_memory = false;
  const DriverCode code = create(handle, &counts_as_out_of_memory);
  if (code == kSuccess) return true;
  if (code != kDriverOutOfMemory && !counts_as_out_of_memory) throw driver_error(driver_, code);
  return false;
}

void PageTable::map_pages(Address address, std::span<const uint64_t> handles,
                          const std::vector<int>& peers) {
  const uint64_t first = index_of(address);
  const uint64_t end = first + handles.size();
  CACHALOT_ASSERT(1, !handles.empty() && is_whole_pages(address, handles.size() * page_size_));
  CACHALOT_ASSERT(2, mapped_between(first, end) == 0);
  try {
    for (uint64_t i = first; i < end; i++) handle(i) = handles[i - first];
    map_range(first, end, peers);
  } catch (...) {
    drop_unused(first, end);
    throw;
  }
  mark_mapped(first, end);
}

void PageTable::take_pages(Address address, uint64_t size, std::vector<uint64_t>* handles) {
  CACHALOT_ASSERT(1, size > 0 && is_whole_pages(address, size));
  const uint64_t first = index_of(address);
  const uint64_t end = first + size / page_size_;
  CACHALOT_ASSERT(1, handles->capacity() - handles->size() >= end - first);
  CACHALOT_ASSERT(2, mapped_between(first, end) == end - first);
  for (uint64_t i = first; i < end; i++) handles->push_back(handle(i));
  exports_.drop(first, end);
  mark_unmapped(first, end);
}

void PageTable::end_mapping(Address address, uint64_t size) {
  CACHALOT_ASSERT(1, size > 0 && is_whole_pages(address, size));
  CACHALOT_ASSERT(2, mapped_between(index_of(address), index_of(address) + size / page_size_) == 0);
  for (Address page = address; page < address + size; page += page_size_)
    driver_.unmap(device_, page, page_size_);
}

void PageTable::synchronize(Stream stream) {
  const DriverCode code = driver_.stream_synchronize(device_, stream);
  if (code != kSuccess) throw runtime_error(driver_, code);
}

void PageTable::unmap(Address address, uint64_t size) {
  CACHALOT_ASSERT(1, size > 0 && is_whole_pages(address, size));
  const uint64_t first = index_of(address);
  const uint64_t end = first + size / page_size_;
  CACHALOT_ASSERT(2, mapped_between(first, end) == end - first);
  for (uint64_t i = first; i < end; i++) {
    driver_.unmap(device_, address_ + i * page_size_, page_size_);
    driver_.release(device_, handle(i));
  }
  // R62: before, the reference fails behind the first page (U14).
  if (exports_.drop(first, end) && !types_.unmaps_shared_fabric_pages())
    log_.differ("U14", "unmapped pages that were shared with fabric handles");
  mark_unmapped(first, end);
}

std::pair<Address, Address> PageTable::whole_pages(Address address, uint64_t size) const {
  CACHALOT_ASSERT(1, address >= address_ && address - address_ + size <= reserved_bytes());
  const Address begin = address_ + round_up(address - address_, page_size_);
  const Address end = address_ + round_down(address + size - address_, page_size_);
  return {begin, std::max(begin, end)};
}

// Answers are ignored: at the end no call is left that could act on them.
void PageTable::give_back() {
  for_each_mapped([&](uint64_t index, const Group& group) {
    driver_.unmap(device_, address_ + index * page_size_, page_size_);
    driver_.release(device_, group.handles[index % kGroup]);
  });
  groups_.clear();
  mapped_pages_ = 0;
  exports_.drop(0, pages_);
}

// ---- Pages for other processes

HandleType PageTable::handle_type() const {
  if (type_) return *type_;
  return types_.probed() == HandleTypes::Probed::kFabric ? HandleType::kFabric
                                                         : HandleType::kPosixFd;
}

const ShareableHandle& PageTable::exported(uint64_t index) {
  if (const ShareableHandle* const known = exports_.find(index)) return *known;
  ShareableHandle made;
  const HandleType type = handle_type();
  const DriverCode code = driver_.export_handle(device_, handle(index), type, &made);
  if (code != kSuccess) throw driver_error(driver_, code);
  return exports_.add(index, type, made);
}

// Pages that were exported before one that fails keep their handles for the next time.
std::vector<ShareableHandle> PageTable::export_pages(Address address, uint64_t size) {
  CACHALOT_ASSERT(1, size > 0 && is_whole_pages(address, size));
  const uint64_t first = index_of(address);
  const uint64_t end = first + size / page_size_;
  CACHALOT_ASSERT(2, mapped_between(first, end) == end - first);
  std::vector<ShareableHandle> handles;
  handles.reserve(end - first);
  for (uint64_t i = first; i < end; i++) handles.push_back(exported(i));
  return handles;
}

void PageTable::give_access(int peer) {
  // The whole list comes first: a failure to allocate must not leave the peer with access to a
  // part.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // first and end
  for_each_mapped([&](uint64_t index, const Group&) {
    if (!ranges.empty() && ranges.back().second == index) {
      ranges.back().second++;
    } else {
      ranges.emplace_back(index, index + 1);
    }
  });
  for (const auto& [first, end] : ranges) {
    const DriverCode code = driver_.set_access(device_, address_ + first * page_size_,
                                               (end - first) * page_size_, peer);
    if (code != kSuccess) throw driver_error(driver_, code);
  }
}

}  // namespace cachalot
