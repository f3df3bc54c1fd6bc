// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/address_table.h"

#include <algorithm>

#include "base/pages.h"

namespace cachalot {

AddressTable::AddressTable()
    : directory_(
          static_cast<std::atomic<Leaf*>*>(map_zero_pages(kDirectoryEntries * sizeof(Leaf*)))) {}

AddressTable::~AddressTable() {
  for (uint64_t i = 0; i < kDirectoryEntries && bytes_ != 0; i++) drop(directory_[i].load());
  for (const auto& [gib, found] : high_) drop(found);
  unmap_pages(directory_, kDirectoryEntries * sizeof(Leaf*));
}

void AddressTable::drop(Leaf* leaf) {
  if (!leaf) return;
  for (Entry& entry : leaf->entries) {
    if (entry & kIsGranules) delete granules(entry);
  }
  delete leaf;
}

void AddressTable::prepare(Address address, uint64_t size, bool small) {
  const Address end = address + size;
  std::lock_guard guard(growing_);
  for (Address gib = round_down(address, GiB); gib < end; gib += GiB) ensure_leaf(gib);
  const auto split = [&](Address mib) {
    ensure_granules(leaf(mib)->entries[(mib / MiB) % kLeafEntries]);
  };
  if (small) {
    for (Address mib = round_down(address, MiB); mib < end; mib += MiB) split(mib);
  } else {
    if (address % MiB != 0) split(address);
    if (end % MiB != 0) split(end);
  }
}

void AddressTable::ensure_leaf(Address address) {
  if (leaf(address)) return;
  auto made = std::make_unique<Leaf>();
  bytes_ += sizeof(Leaf);
  if (address >> kDirectoryEnd) {
    std::lock_guard guard(high_lock_);
    Leaf*& place = high_[address / GiB];
    place = made.release();
  } else {
    directory_[address / GiB].store(made.release(), std::memory_order_release);
  }
}

AddressTable::Leaf* AddressTable::high_leaf(Address address) const {
  std::lock_guard guard(high_lock_);
  const auto found = high_.find(address / GiB);
  return found == high_.end() ? nullptr : found->second;
}

void AddressTable::ensure_granules(Entry& entry) {
  if (entry & kIsGranules) return;
  auto* made = new Granules{};
  bytes_ += sizeof(Granules);
  entry.store(reinterpret_cast<uint64_t>(made) | kIsGranules, std::memory_order_release);
}

}  // namespace cachalot
