// SPDX-License-Identifier: MIT OR Apache-2.0
// From the address of a block to the number of its object.
//
// Two levels: a directory with an entry for each GiB of a 47-bit address space, leaves with an
// entry for each MiB. Blocks of large pools are larger than 1 MiB, so at most one begins in a MiB
// and the entry names it; where small pools are, and where a MiB is not all of one segment, the
// entry is a table of 2048 granules of 512 bytes. So a plain entry is written under one shard's
// lock only. The leaves of higher addresses are in a map.
//
// Reading needs no lock. Entries are not cleared when a block is freed or its segment is given
// back: a reader takes what it finds as a guess, and checks under its shard's lock that this block
// is used and has exactly this address. That check also finds double frees.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/units.h"
#include "device/device.h"

namespace cachalot {

class AddressTable {
 public:
  AddressTable();
  ~AddressTable();
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  // Makes room for the blocks of a new segment or a newly mapped range, so that set() never
  // allocates. Throws std::bad_alloc. small: blocks may begin at any granule.
  void prepare(Address address, uint64_t size, bool small);

  // pre: prepare() was called for a range that holds address.
  void set(Address address, uint32_t number) {
    Entry& entry = leaf(address)->entries[(address / MiB) % kLeafEntries];
    const uint64_t value = entry.load(std::memory_order_relaxed);
    if (value & kIsGranules) {
      granules(value)->numbers[(address / kGranule) % kGranulesPerMiB].store(
          number, std::memory_order_release);
    } else {
      entry.store(uint64_t{number} << 1, std::memory_order_release);
    }
  }

  // A guess; 0: no block begins there. Any thread.
  uint32_t find(Address address) const {
    const Leaf* found = leaf(address);
    if (!found) return 0;
    const uint64_t value =
        found->entries[(address / MiB) % kLeafEntries].load(std::memory_order_acquire);
    if (value & kIsGranules) {
      return granules(value)->numbers[(address / kGranule) % kGranulesPerMiB].load(
          std::memory_order_acquire);
    }
    return static_cast<uint32_t>(value >> 1);
  }

  // Bytes taken from the system.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  using Entry = std::atomic<uint64_t>;  // block number * 2, or a Granules* with the lowest bit set
  static constexpr unsigned kDirectoryEnd = 47;
  static constexpr uint64_t kDirectoryEntries = uint64_t{1} << (kDirectoryEnd - 30);
  static constexpr uint64_t kLeafEntries = GiB / MiB;
  static constexpr uint64_t kGranule = 512;
  static constexpr uint64_t kGranulesPerMiB = MiB / kGranule;
  static constexpr uint64_t kIsGranules = 1;

  struct Granules {
    std::atomic<uint32_t> numbers[kGranulesPerMiB];
  };
  struct Leaf {
    Entry entries[kLeafEntries];
  };

  Leaf* leaf(Address address) const {
    if (address >> kDirectoryEnd) [[unlikely]]
      return high_leaf(address);
    return directory_[address / GiB].load(std::memory_order_acquire);
  }
  Leaf* high_leaf(Address address) const;
  static Granules* granules(uint64_t value) {
    return reinterpret_cast<Granules*>(value - kIsGranules);
  }
  void ensure_leaf(Address address);
  static void drop(Leaf* leaf);
  void ensure_granules(Entry& entry);

  std::atomic<Leaf*>* directory_;
  std::mutex growing_;
  mutable std::mutex high_lock_;
  std::unordered_map<uint64_t, Leaf*> high_;  // by address / GiB
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace cachalot
