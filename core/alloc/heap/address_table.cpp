// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/address_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/pages.h"
#include "base/reserve.h"

namespace cachalot {

AddressTable::AddressTable()
    : directory_(
          static_cast<std::atomic<Leaf*>*>(map_zero_pages(kDirectoryEntries * sizeof(Leaf*)))) {}

AddressTable::~AddressTable() {
  for (Leaf* leaf : leaves_) unmap_pages(leaf, sizeof(Leaf));
  unmap_pages(directory_, kDirectoryEntries * sizeof(Leaf*));
}

void AddressTable::prepare(Address address, uint64_t size, bool small) {
  CACHALOT_ASSERT(1, size > 0 && address <= UINT64_MAX - (size - 1));
  const Address last = address + (size - 1);
  const std::lock_guard guard(growing_);
  for (uint64_t gib = address / GiB; gib <= last / GiB; gib++) ensure_leaf(gib * GiB);
  const auto mark = [this](uint64_t mib) {
    Number& entry = leaf(mib * MiB)->entry(mib * MiB);
    // A segment that shares the MiB may have marked it before, and it may be dense by now.
    if (!(entry & kSmall)) entry.store(kSmall, std::memory_order_release);
  };
  if (small) {
    for (uint64_t mib = address / MiB; mib <= last / MiB; mib++) mark(mib);
  } else {
    // At its ends a large segment may share a MiB, where one number would not be enough.
    if (address % MiB != 0) mark(address / MiB);
    if (last % MiB != MiB - 1) mark(last / MiB);
  }
}

// A MiB at either end may have blocks of another segment too, so its entry stays.
void AddressTable::release(Address address, uint64_t size) {
  CACHALOT_ASSERT(1, size > 0 && is_prepared(address) && is_prepared(address + (size - 1)));
  const Address last = address + (size - 1);
  const uint64_t first = address / MiB + (address % MiB != 0 ? 1 : 0);
  const uint64_t end = last / MiB + (last % MiB == MiB - 1 ? 1 : 0);
  const std::lock_guard guard(growing_);
  for (uint64_t mib = first; mib < end; mib++) {
    const Address begin = mib * MiB;
    Leaf& found = *leaf(begin);
    // A reader may follow the old entry meanwhile: it finds a number that its check refuses.
    const uint32_t value = found.entry(begin).exchange(0, std::memory_order_acq_rel);
    if (value & kDense) {
      drop_pages(&found.granule(begin), MiB / kGranule * sizeof(Number));
      found.dense_count--;
    } else if (value & kSmall) {
      for (uint64_t i = 0; i < kPartsOfMiB; i++) {
        auto& index = found.part_index(begin + i * kPartSize);
        if (index != kNoPart) found.give_part(index.exchange(kNoPart, std::memory_order_acq_rel));
      }
    }
  }
}

void AddressTable::shrink() {
  const std::lock_guard guard(growing_);
  bool keeps_some = true;
  for (Leaf* leaf : leaves_) leaf->give_unused_parts(&keeps_some);
}

void AddressTable::make_room(Address address) {
  if (place(address).has_room()) return;
  const std::lock_guard guard(growing_);
  Leaf& found = *leaf(address);
  const uint64_t mib = (address / MiB) % (GiB / MiB);
  // Beside a busy MiB the next one is likely to be busy too. Only an empty one becomes dense: readers
  // could miss numbers that move from parts to granules.
  if (found.part_count(mib) == 0) {
    // The shard of another segment that shares the MiB may have been here first.
    if (found.entry(address) & kDense) return;
    if (found.is_busy(mib - 1) || found.is_busy(mib + 1))
      return make_dense(found, found.entry(address));
  }
  add_part(found, address);
  if (address % MiB < kPartSize) return;
  // A stream that has used one part may soon use the next ones.
  for (uint64_t i = 1; i <= kMoreParts; i++) {
    const Address next = address + i * kPartSize;
    if (next / MiB == address / MiB) add_part(found, next);
  }
  CACHALOT_ASSERT(1, place(address).has_room());
}

void AddressTable::add_part(Leaf& leaf, Address address) {
  auto& index = leaf.part_index(address);
  if (index == kNoPart) index.store(leaf.take_part(), std::memory_order_release);
}

void AddressTable::make_dense(Leaf& leaf, Number& entry) {
  CACHALOT_ASSERT(1, entry == kSmall);
  // From here on misses of the translation cache cost more than the memory that huge pages waste.
  if (++leaf.dense_count == kManyDense) prefer_huge_pages(leaf.granules, sizeof(leaf.granules));
  entry.store(kSmall | kDense, std::memory_order_release);
}

void AddressTable::ensure_leaf(Address address) {
  growing_.assert_held();
  if (leaf(address)) return;
  // Nothing may fail between the mapping and the entry in leaves_, which unmaps it at the end.
  reserve_one_more(leaves_);
  auto* const made = static_cast<Leaf*>(map_zero_pages(sizeof(Leaf)));
  // A huge page would back 2 MiB of the table for one entry.
  prefer_small_pages(made, sizeof(Leaf));
  made->used_parts[0] = 1;  // kNoPart
  leaves_.push_back(made);
  if (address >> kDirectoryEnd) {
    const std::lock_guard guard(high_lock_);
    high_.emplace(address / GiB, made);
  } else {
    directory_[address / GiB].store(made, std::memory_order_release);
  }
}

AddressTable::Leaf* AddressTable::high_leaf(Address address) const {
  const std::lock_guard guard(high_lock_);
  const auto found = high_.find(address / GiB);
  return found == high_.end() ? nullptr : found->second;
}

// ---- Parts. pre: growing_ is held.

uint64_t AddressTable::Leaf::part_count(uint64_t mib) const {
  const auto* const first = &part_indexes[mib * kPartsOfMiB];
  return static_cast<uint64_t>(std::count_if(first, first + kPartsOfMiB,
                                             [](const auto& index) { return index != kNoPart; }));
}

// Any number; false beyond the leaf.
bool AddressTable::Leaf::is_busy(uint64_t mib) const {
  if (mib >= GiB / MiB) return false;
  const uint32_t value = entries[mib];
  return (value & kSmall) && ((value & kDense) || part_count(mib) >= kManyParts);
}

// Always finds one: a leaf has a part for each 64 KiB of its GiB.
uint16_t AddressTable::Leaf::take_part() {
  uint32_t word = first_unused_part / 64;
  while (used_parts[word] == ~uint64_t{0}) word++;
  const uint32_t index = word * 64 + static_cast<uint32_t>(std::countr_one(used_parts[word]));
  used_parts[word] |= uint64_t{1} << (index % 64);
  touched_parts[word / 64] |= uint64_t{1} << (word % 64);
  first_unused_part = index + 1;
  return static_cast<uint16_t>(index);
}

// A reader without a lock may still look at the part: its numbers become 0, its pages stay mapped.
void AddressTable::Leaf::give_part(uint16_t index) {
  CACHALOT_ASSERT(1, used_parts[index / 64] >> (index % 64) & 1);
  for (Number& number : parts[index].numbers) number.store(0, std::memory_order_relaxed);
  used_parts[index / 64] &= ~(uint64_t{1} << (index % 64));
  first_unused_part = std::min<uint32_t>(first_unused_part, index);
}

// Gives 64 parts that lie side by side at a time, which are whole pages. keeps_some: the first 64 stay,
// so that a caller that empties the cache again and again does not give and take the same pages.
void AddressTable::Leaf::give_unused_parts(bool* keeps_some) {
  for (uint32_t word = 0; word < std::size(used_parts); word++) {
    const uint64_t bit = uint64_t{1} << (word % 64);
    const bool is_unused = used_parts[word] == (word == 0 ? 1 : 0);
    if (!(touched_parts[word / 64] & bit) || !is_unused) continue;
    if (std::exchange(*keeps_some, false)) continue;
    drop_pages(&parts[size_t{word} * 64], 64 * sizeof(Part));
    touched_parts[word / 64] &= ~bit;
  }
}

}  // namespace cachalot
