// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/address_table.h"

#include <algorithm>

#include "base/pages.h"

namespace cachalot {

AddressTable::AddressTable()
    : directory_(
          static_cast<std::atomic<Leaf*>*>(map_zero_pages(kDirectoryEntries * sizeof(Leaf*)))) {}

AddressTable::~AddressTable() {
  for (uint64_t i = 0; i < kDirectoryEntries && bytes_ != 0; i++) {
    Leaf* found = directory_[i].load();
    if (!found) continue;
    for (Entry& entry : found->entries) {
      if (entry & kIsGranules) delete granules(entry);
    }
    delete found;
  }
  unmap_pages(directory_, kDirectoryEntries * sizeof(Leaf*));
}

void AddressTable::prepare(Address address, uint64_t size, bool small) {
  if (address >> kDirectoryEnd) return;  // set_high makes room by itself
  const Address end = std::min(address + size, Address{1} << kDirectoryEnd);
  std::lock_guard guard(growing_);
  for (Address gib = round_down(address, GiB); gib < end; gib += GiB) ensure_leaf(gib);
  for (Address mib = round_down(address, MiB); mib < end; mib += MiB) {
    const bool shared = mib < address || end - mib < MiB;
    if (small || shared) ensure_granules(leaf(mib)->entries[(mib / MiB) % kLeafEntries]);
  }
}

AddressTable::Leaf* AddressTable::ensure_leaf(Address address) {
  std::atomic<Leaf*>& slot = directory_[address / GiB];
  if (Leaf* found = slot.load()) return found;
  Leaf* made = new Leaf{};
  bytes_ += sizeof(Leaf);
  slot.store(made, std::memory_order_release);
  return made;
}

void AddressTable::ensure_granules(Entry& entry) {
  if (entry & kIsGranules) return;
  Granules* made = new Granules{};
  bytes_ += sizeof(Granules);
  entry.store(reinterpret_cast<uint64_t>(made) | kIsGranules, std::memory_order_release);
}

void AddressTable::set_high(Address address, uint32_t number) {
  std::lock_guard guard(high_lock_);
  high_[address] = number;
}

uint32_t AddressTable::find_high(Address address) const {
  std::lock_guard guard(high_lock_);
  const auto found = high_.find(address);
  return found == high_.end() ? 0 : found->second;
}

}  // namespace cachalot
