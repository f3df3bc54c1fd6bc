// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sharing/opened_memory.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/text.h"

namespace cachalot {

Address OpenedMemory::open(int device, const std::string& name, const SharedMemory& memory,
                           const std::vector<int>& peers) {
  const std::lock_guard lock(lock_);
  const auto [place, is_new] = opened_.try_emplace(Name(device, name));
  Opened& opened = place->second;
  if (!is_new) {
    opened.users++;
    return opened.range->address();
  }
  try {
    if (const auto* const segment = std::get_if<ShareableHandle>(&memory)) {
      opened.range = std::make_unique<OpenedSegment>(driver_, device, *segment);
    } else {
      opened.range = std::make_unique<OpenedPages>(driver_, types_, rules_, device,
                                                   std::get<SharedPages>(memory), peers);
    }
  } catch (...) {
    opened_.erase(place);
    throw;
  }
  return opened.range->address();
}

// By its address, since a user that opened it by a name may not have kept the name.
void OpenedMemory::close(Address address) {
  const std::lock_guard lock(lock_);
  const auto found = std::find_if(opened_.begin(), opened_.end(), [&](const auto& opened) {
    return opened.second.range->address() == address;
  });
  if (found == opened_.end())
    throw_invalid_argument("no opened memory begins at " + hex_address(address));
  if (--found->second.users == 0) opened_.erase(found);
}

// Work may still use segments, too.
void OpenedMemory::close_all() {
  const std::lock_guard lock(lock_);
  for (const auto& [name, opened] : opened_) driver_.device_synchronize(name.first);
  opened_.clear();
}

uint64_t OpenedMemory::count() {
  const std::lock_guard lock(lock_);
  return opened_.size();
}

// The reference counts opened pages among its expandable segments (R67).
std::pair<uint64_t, uint64_t> OpenedMemory::expandable_totals() {
  const std::lock_guard lock(lock_);
  std::pair<uint64_t, uint64_t> totals{0, 0};
  for (const auto& [name, opened] : opened_) {
    const uint64_t reserved = opened.range->reserved_bytes();
    totals.first += reserved;
    totals.second += reserved != 0 ? 1 : 0;
  }
  return totals;
}

}  // namespace cachalot
