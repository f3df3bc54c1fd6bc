// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/address_table.h"

#include <algorithm>

#include "base/pages.h"

namespace cachalot {

constinit AddressTable::Granules AddressTable::no_granules_{};

AddressTable::AddressTable()
    : directory_(
          static_cast<std::atomic<Leaf*>*>(map_zero_pages(kDirectoryEntries * sizeof(Leaf*)))) {}

AddressTable::~AddressTable() {
  const auto drop = [](Leaf* leaf) {
    if (leaf) unmap_pages(leaf, sizeof(Leaf));
  };
  for (uint64_t i = 0; i < kDirectoryEntries && bytes_ != 0; i++) drop(directory_[i].load());
  for (const auto& [gib, found] : high_) drop(found);
  unmap_pages(directory_, kDirectoryEntries * sizeof(Leaf*));
}

void AddressTable::prepare(Address address, uint64_t size, bool small) {
  const Address last = address + (size - 1);
  const std::lock_guard guard(growing_);
  for (uint64_t gib = address / GiB; gib <= last / GiB; gib++) ensure_leaf(gib * GiB);
  if (address % kSlot != 0) ensure_granules(entry(address));
  if (last % kSlot != kSlot - 1) ensure_granules(entry(last));
  if (!small) return;
  for (uint64_t slot = address / kSlot; slot <= last / kSlot; slot++) {
    Entry& present = entry(slot * kSlot);
    if (!(present & kIsGranules)) present.store(unbacked(), std::memory_order_release);
  }
}

void AddressTable::release(Address address, uint64_t size) {
  // Slots at the ends may be shared with other segments, and keep their granules.
  const Address last = address + (size - 1);
  const uint64_t first = address / kSlot + (address % kSlot != 0 ? 1 : 0);
  const uint64_t end = last / kSlot + (last % kSlot == kSlot - 1 ? 1 : 0);
  const std::lock_guard guard(growing_);
  for (uint64_t slot = first; slot < end; slot++) {
    const uint64_t value = entry(slot * kSlot).exchange(0, std::memory_order_acq_rel);
    if (!(value & kIsGranules) || value == unbacked()) continue;
    Granules* const freed = granules(value);
    for (auto& number : freed->numbers) number.store(0, std::memory_order_relaxed);
    pool_.give(freed);
  }
}

void AddressTable::shrink() {
  const std::lock_guard guard(growing_);
  pool_.shrink();
}

void AddressTable::make_room(Address address) {
  if (place(address).has_room()) return;
  const std::lock_guard guard(growing_);
  ensure_granules(entry(address));
}

void AddressTable::ensure_leaf(Address address) {
  if (leaf(address)) return;
  const auto make = [] { return static_cast<Leaf*>(map_zero_pages(sizeof(Leaf))); };
  if (address >> kDirectoryEnd) {
    const std::lock_guard guard(high_lock_);
    Leaf*& place = high_[address / GiB];
    place = make();
  } else {
    directory_[address / GiB].store(make(), std::memory_order_release);
  }
  bytes_ += sizeof(Leaf);
}

AddressTable::Leaf* AddressTable::high_leaf(Address address) const {
  const std::lock_guard guard(high_lock_);
  const auto found = high_.find(address / GiB);
  return found == high_.end() ? nullptr : found->second;
}

// pre: growing_.
void AddressTable::ensure_granules(Entry& entry) {
  const uint64_t value = entry.load();
  if ((value & kIsGranules) && value != unbacked()) return;
  const uint64_t before = pool_.bytes();
  Granules* const made = pool_.take();
  bytes_ += pool_.bytes() - before;
  entry.store(reinterpret_cast<uint64_t>(made) | kIsGranules, std::memory_order_release);
}

}  // namespace cachalot
