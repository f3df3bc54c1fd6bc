// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/address_table.h"

#include <algorithm>
#include <bit>

#include "base/pages.h"

namespace cachalot {

constinit AddressTable::Granules AddressTable::no_granules_{};

AddressTable::AddressTable()
    : directory_(
          static_cast<std::atomic<Leaf*>*>(map_zero_pages(kDirectoryEntries * sizeof(Leaf*)))) {}

AddressTable::~AddressTable() {
  for (const auto& [gib, use] : uses_) unmap_pages(use.leaf, sizeof(Leaf));
  unmap_pages(directory_, kDirectoryEntries * sizeof(Leaf*));
}

void AddressTable::prepare(Address address, uint64_t size, bool small) {
  const Address last = address + (size - 1);
  const std::lock_guard guard(growing_);
  for (uint64_t gib = address / GiB; gib <= last / GiB; gib++) ensure_leaf(gib * GiB);
  if (address % kSlot != 0) ensure_granules(entry(address));
  if (last % kSlot != kSlot - 1) ensure_granules(entry(last));
  count_slots(address, last, true);
  if (!small) return;
  for (uint64_t slot = address / kSlot; slot <= last / kSlot; slot++) {
    Entry& present = entry(slot * kSlot);
    if (!(present & kIsGranules)) present.store(unbacked(), std::memory_order_release);
  }
}

void AddressTable::release(Address address, uint64_t size, bool small) {
  const Address last = address + (size - 1);
  const std::lock_guard guard(growing_);
  if (small) release_granules(address, last);
  count_slots(address, last, false);
}

// Slots at the ends may be shared with other segments, and keep their granules.
void AddressTable::release_granules(Address address, Address last) {
  const uint64_t first = address / kSlot + (address % kSlot != 0 ? 1 : 0);
  const uint64_t end = last / kSlot + (last % kSlot == kSlot - 1 ? 1 : 0);
  for (uint64_t slot = first; slot < end; slot++) {
    Entry& present = entry(slot * kSlot);
    const uint64_t value = present.load(std::memory_order_relaxed);
    present.store(0, std::memory_order_release);
    if (!(value & kIsGranules) || value == unbacked()) continue;
    Granules* const freed = granules(value);
    for (auto& number : freed->numbers) number.store(0, std::memory_order_relaxed);
    pool_.give(freed);
  }
}

// pre (here and below): growing_, and the leaves are there.
void AddressTable::count_slots(Address address, Address last, bool is_prepared) {
  const uint64_t end = last / kSlot + 1;
  for (uint64_t slot = address / kSlot; slot < end;) {
    const uint64_t next = std::min(end, (slot / kSlotsPerPage + 1) * kSlotsPerPage);
    LeafUse& use = uses_.find(slot / kLeafEntries)->second;
    const uint64_t page = slot % kLeafEntries / kSlotsPerPage;
    uint32_t& slots = use.slots[page];
    slots = static_cast<uint32_t>(is_prepared ? slots + (next - slot) : slots - (next - slot));
    const uint32_t bit = uint32_t{1} << page;
    use.unused = slots == 0 ? use.unused | bit : use.unused & ~bit;
    slot = next;
  }
}

// Slots that segments shared keep their granules, so their pages stay.
void AddressTable::shrink() {
  const std::lock_guard guard(growing_);
  pool_.shrink();
  uint64_t pages = 0;
  for (const auto& [gib, use] : uses_) pages += static_cast<uint64_t>(std::popcount(use.unused));
  if (pages < kFewPages) return;
  for (auto& [gib, use] : uses_) {
    for (; use.unused != 0; use.unused &= use.unused - 1)
      drop_page(use, static_cast<uint64_t>(std::countr_zero(use.unused)));
  }
}

void AddressTable::drop_page(LeafUse& use, uint64_t page) {
  Entry* const entries = use.leaf->entries + page * kSlotsPerPage;
  const bool is_shared = std::any_of(entries, entries + kSlotsPerPage, [](const Entry& entry) {
    const uint64_t value = entry.load(std::memory_order_relaxed);
    return (value & kIsGranules) && value != unbacked();
  });
  if (!is_shared) drop_pages(entries, kPage);
}

void AddressTable::make_room(Address address) {
  if (place(address).has_room()) return;
  const std::lock_guard guard(growing_);
  ensure_granules(entry(address));
}

void AddressTable::ensure_leaf(Address address) {
  if (leaf(address)) return;
  const auto use = uses_.try_emplace(address / GiB).first;
  try {
    if (address >> kDirectoryEnd) {
      const std::lock_guard guard(high_lock_);
      Leaf*& place = high_[address / GiB];
      place = use->second.leaf = static_cast<Leaf*>(map_zero_pages(sizeof(Leaf)));
    } else {
      use->second.leaf = static_cast<Leaf*>(map_zero_pages(sizeof(Leaf)));
      directory_[address / GiB].store(use->second.leaf, std::memory_order_release);
    }
  } catch (...) {
    uses_.erase(use);
    throw;
  }
  bytes_ += sizeof(Leaf);
}

AddressTable::Leaf* AddressTable::high_leaf(Address address) const {
  const std::lock_guard guard(high_lock_);
  const auto found = high_.find(address / GiB);
  return found == high_.end() ? nullptr : found->second;
}

void AddressTable::ensure_granules(Entry& entry) {
  const uint64_t value = entry.load();
  if ((value & kIsGranules) && value != unbacked()) return;
  const uint64_t before = pool_.bytes();
  Granules* const made = pool_.take();
  bytes_ += pool_.bytes() - before;
  entry.store(reinterpret_cast<uint64_t>(made) | kIsGranules, std::memory_order_release);
}

}  // namespace cachalot
