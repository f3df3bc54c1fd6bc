// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/address_table.h"

#include <utility>

#include "base/pages.h"

namespace cachalot {

constinit AddressTable::Part AddressTable::no_part{};
constinit AddressTable::Parts AddressTable::no_parts{
    {&no_part, &no_part, &no_part, &no_part, &no_part, &no_part, &no_part, &no_part, &no_part,
     &no_part, &no_part, &no_part, &no_part, &no_part, &no_part, &no_part}};

AddressTable::AddressTable()
    : directory_(
          static_cast<std::atomic<Leaf*>*>(map_zero_pages(kDirectoryEntries * sizeof(Leaf*)))) {}

AddressTable::~AddressTable() {
  const auto unmap = [](Leaf* leaf) {
    if (leaf) unmap_pages(leaf, sizeof(Leaf));
  };
  for (uint64_t i = 0; i < kDirectoryEntries && bytes_ != 0; i++) unmap(directory_[i].load());
  for (const auto& [gib, found] : high_) unmap(found);
  unmap_pages(directory_, kDirectoryEntries * sizeof(Leaf*));
}

void AddressTable::prepare(Address address, uint64_t size, bool small) {
  CACHALOT_ASSERT(1, size > 0 && address <= UINT64_MAX - (size - 1));
  const Address last = address + (size - 1);
  const std::lock_guard guard(growing_);
  for (uint64_t gib = address / GiB; gib <= last / GiB; gib++) ensure_leaf(gib * GiB);
  if (small) {
    for (uint64_t mib = address / MiB; mib <= last / MiB; mib++) mark(entry(mib * MiB));
  } else {
    if (address % MiB != 0) mark(entry(address));
    if (last % MiB != MiB - 1) mark(entry(last));
  }
}

// What segments may share at the ends stays.
void AddressTable::release(Address address, uint64_t size) {
  CACHALOT_ASSERT(1, size > 0 && is_prepared(address) && is_prepared(address + (size - 1)));
  const Address last = address + (size - 1);
  const uint64_t first = address / MiB + (address % MiB != 0 ? 1 : 0);
  const uint64_t end = last / MiB + (last % MiB == MiB - 1 ? 1 : 0);
  const std::lock_guard guard(growing_);
  for (uint64_t mib = first; mib < end; mib++) {
    const uint64_t value = entry(mib * MiB).exchange(0, std::memory_order_acq_rel);
    if (value & kHasParts) give_parts(parts_of(value));
  }
}

// A reader may still look at them, so they lead to parts at any time.
void AddressTable::give_parts(Parts* parts) {
  growing_.assert_held();
  if (parts == &no_parts) return;
  for (auto& place : parts->parts) {
    Part* const part = place.exchange(&no_part, std::memory_order_acq_rel);
    if (part == &no_part) continue;
    for (auto& number : part->numbers) number.store(0, std::memory_order_relaxed);
    part_pool_.give(part);
  }
  parts_pool_.give(parts);
}

void AddressTable::shrink() {
  const std::lock_guard guard(growing_);
  part_pool_.shrink();
}

template <class T>
T* AddressTable::take_from(StablePool<T>& pool) {
  growing_.assert_held();
  const uint64_t before = pool.bytes();
  T* const taken = pool.take();
  bytes_ += pool.bytes() - before;
  return taken;
}

void AddressTable::make_room(Address address) {
  if (place(address).has_room()) return;
  const std::lock_guard guard(growing_);
  Entry& present = entry(address);
  if (parts_of(present) == &no_parts) {
    Parts* const made = take_from(parts_pool_);
    for (auto& place : made->parts) place.store(&no_part, std::memory_order_relaxed);
    present.store(reinterpret_cast<uint64_t>(made) | kHasParts, std::memory_order_release);
  }
  std::atomic<Part*>* place = &part(present, address);
  std::atomic<Part*>* const first = parts_of(present)->parts;
  std::atomic<Part*>* const end = place == first ? first + 1 : first + MiB / kPartSize;
  add_part(*place);
  // A stream that has used one part may soon use the next ones.
  for (int more = 0; more < kMoreParts && ++place != end && part_pool_.has_free(); more++)
    add_part(*place);
  CACHALOT_ASSERT(1, this->place(address).has_room());
}

void AddressTable::add_part(std::atomic<Part*>& place) {
  if (place == &no_part) place.store(take_from(part_pool_), std::memory_order_release);
}

// Many blocks may begin in this MiB.
void AddressTable::mark(Entry& entry) {
  if (entry & kHasParts) return;
  entry.store(reinterpret_cast<uint64_t>(&no_parts) | kHasParts, std::memory_order_release);
}

void AddressTable::ensure_leaf(Address address) {
  growing_.assert_held();
  if (leaf(address)) return;
  // Of which half is touched where a segment of pages lies alone.
  const auto make = [] { return static_cast<Leaf*>(map_zero_pages(sizeof(Leaf))); };
  if (address >> kDirectoryEnd) {
    const std::lock_guard guard(high_lock_);
    high_.try_emplace(address / GiB).first->second = make();
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

}  // namespace cachalot
