// SPDX-License-Identifier: MIT OR Apache-2.0
// From the address of a block to the number of its object.
//
// Note [Address table]
// Rationale: a free knows an address only, and must find its block without a lock.
// Approach: a directory has a leaf for each GiB of a 47-bit address space; the leaves of addresses above
// are in a map. A leaf has an entry for each MiB. Blocks of large pools are larger than 1 MiB, so at most
// one begins in a MiB, and its entry is the number. In small pools, and where a MiB is not all of one
// segment, many blocks may begin in a MiB; it is of one of two kinds:
//   sparse  each 64 KiB where a block begins get a part, a table of 128 granules of 512 bytes, when that
//           block is to begin (make_room). The parts of a leaf lie side by side in the order in which they
//           are made, so a segment that is hardly used takes hardly any memory;
//   dense   the MiB has a place of its own among the granules of the GiB, so nothing is looked up before
//           the number itself: with many live blocks each look is a miss of the caches. Its pages serve
//           512 KiB each, so a MiB becomes dense only where one beside it has many parts.
//   A reader needs no lock. Numbers are not cleared when a block is freed: a reader takes the number
// that it finds as a guess, and checks under the lock of the block's shard that this block is used
// and has exactly this address. The check also finds double frees. So parts may be used again for
// other addresses, but are never unmapped before the end.
// Invariants: only the shard of a segment writes to the entry of a MiB that is all of this segment. A
// MiB that segments share is sparse or dense from the beginning. A sparse MiB stays sparse while its
// segment is there.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"
#include "base/units.h"
#include "device/device.h"

namespace cachalot {

class AddressTable {
  using Number = std::atomic<uint32_t>;

 public:
  static constexpr uint64_t kGranule = 512;
  static constexpr uint64_t kPartSize = 64 * KiB;

  // Where the number of the block that begins at an address goes.
  class Place {
   public:
    // False: make_room() comes first.
    bool has_room() const { return number_ != nullptr; }

   private:
    friend class AddressTable;
    explicit Place(Number* number) : number_(number) {}

    Number* number_;
  };

  AddressTable();
  ~AddressTable();
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  // For a new segment or a newly mapped range. small: blocks may begin at any granule. Throws
  // std::bad_alloc.
  void prepare(Address address, uint64_t size, bool small);
  // A range of a small pool is given back: its memory serves other addresses.
  void release(Address address, uint64_t size);
  // Gives the system the pages of parts that release() has left unused.
  void shrink();

  // pre (here and below): prepare() was called for a range that holds address.
  [[gnu::always_inline]] Place place(Address address) const {
    CACHALOT_ASSERT(1, is_prepared(address));
    Leaf& found = *leaf(address);
    Number& entry = found.entry(address);
    const uint32_t value = entry.load(std::memory_order_acquire);
    if (!(value & kSmall)) return Place(&entry);
    if (value & kDense) return Place(&found.granule(address));
    const uint32_t part = found.part_index(address).load(std::memory_order_acquire);
    return Place(part == kNoPart ? nullptr : &found.parts[part].number(address));
  }
  // pre: the place of this address, which has room.
  static void set(Place place, uint32_t number) {
    CACHALOT_ASSERT(1, place.has_room() && number < kDense);
    place.number_->store(number, std::memory_order_release);
  }
  void set(Address address, uint32_t number) { set(place(address), number); }
  // Throws std::bad_alloc.
  void make_room(Address address);

  // A guess; 0: no block begins there. Any thread.
  [[gnu::always_inline]] uint32_t find(Address address) const {
    Leaf* const found = leaf(address);
    if (!found) return 0;
    const uint32_t value = found->entry(address).load(std::memory_order_acquire);
    if (!(value & kSmall)) return value;
    if (value & kDense) return found->granule(address).load(std::memory_order_acquire);
    const uint32_t part = found->part_index(address).load(std::memory_order_acquire);
    return found->parts[part].number(address).load(std::memory_order_acquire);
  }

  // Calls `see` with the guesses for the addresses from this one down, the nearest first, until it gives true or
  // nothing was ever prepared around. An entry of a MiB stands for the block that begins anywhere in it. Any thread.
  template <class See>
  void for_each_down_from(Address address, See see) const {
    for (Leaf* found = leaf(address); found != nullptr; found = leaf(address)) {
      if (see_mib(*found, address, see)) return;
      const Address mib = address / MiB * MiB;
      if (mib == 0) return;
      address = mib - 1;
    }
  }

 private:
  // An entry is the number of a block, below 2^30, or has kSmall.
  static constexpr uint32_t kSmall = uint32_t{1} << 31;
  static constexpr uint32_t kDense = uint32_t{1} << 30;
  static constexpr uint32_t kNoPart = 0;  // a part that stays empty
  static constexpr unsigned kDirectoryEnd = 47;
  static constexpr uint64_t kDirectoryEntries = uint64_t{1} << (kDirectoryEnd - 30);
  static constexpr uint64_t kPartsOfMiB = MiB / kPartSize;
  static constexpr uint64_t kPartsOfLeaf = GiB / kPartSize;
  static constexpr uint64_t kManyParts = kPartsOfMiB / 2;
  static constexpr uint32_t kManyDense = 256;  // MiBs of a leaf
  static constexpr uint64_t kMoreParts = 3;

  struct Part {
    Number numbers[kPartSize / kGranule];

    Number& number(Address address) {
      return numbers[(address / kGranule) % (kPartSize / kGranule)];
    }
  };
  // Of a GiB. Pages that are not needed are never touched.
  struct Leaf {
    Number entries[GiB / MiB];
    std::atomic<uint16_t> part_indexes[kPartsOfLeaf];
    // The rest of this page is guarded by growing_.
    uint64_t used_parts[kPartsOfLeaf / 64 + 1];          // bits
    uint64_t touched_parts[kPartsOfLeaf / 64 / 64 + 1];  // bits; each stands for 64 parts
    uint32_t first_unused_part;                          // or one before it
    uint32_t dense_count;
    alignas(4096) Part parts[kPartsOfLeaf + 1];
    alignas(4096) Number granules[GiB / kGranule];  // of dense MiBs

    Number& entry(Address address) { return entries[(address / MiB) % (GiB / MiB)]; }
    Number& granule(Address address) { return granules[(address % GiB) / kGranule]; }
    std::atomic<uint16_t>& part_index(Address address) {
      return part_indexes[(address / kPartSize) % kPartsOfLeaf];
    }
    uint64_t part_count(uint64_t mib) const;
    bool is_busy(uint64_t mib) const;
    uint16_t take_part();
    void give_part(uint16_t index);
    void give_unused_parts(bool* keeps_some);
  };

  [[gnu::always_inline]] Leaf* leaf(Address address) const {
    if (address >> kDirectoryEnd) [[unlikely]]
      return high_leaf(address);
    return directory_[address / GiB].load(std::memory_order_acquire);
  }
  bool is_prepared(Address address) const { return leaf(address) != nullptr; }
  // The guesses for the addresses of the MiB, from this one down. Gives whether `see` gave true.
  template <class See>
  static bool see_mib(Leaf& leaf, Address address, See see) {
    const uint32_t value = leaf.entry(address).load(std::memory_order_acquire);
    if (!(value & kSmall)) return value != 0 && see(value);
    const uint64_t last = address % MiB / kGranule;
    for (uint64_t granule = last + 1; granule-- > 0;) {
      const Address at = address / MiB * MiB + granule * kGranule;
      uint32_t number = 0;
      if (value & kDense) {
        number = leaf.granule(at).load(std::memory_order_acquire);
      } else {
        const uint32_t part = leaf.part_index(at).load(std::memory_order_acquire);
        if (part == kNoPart) granule -= granule % (kPartSize / kGranule);
        number = leaf.parts[part].number(at).load(std::memory_order_acquire);
      }
      if (number != 0 && see(number)) return true;
    }
    return false;
  }
  Leaf* high_leaf(Address address) const;
  void ensure_leaf(Address address);
  static void make_dense(Leaf& leaf, Number& entry);
  static void add_part(Leaf& leaf, Address address);

  std::atomic<Leaf*>* directory_;
  Mutex growing_{LockRank::kAddressTable};
  mutable Mutex high_lock_{LockRank::kHighAddresses};
  std::unordered_map<uint64_t, Leaf*> high_;  // by address / GiB
  std::vector<Leaf*> leaves_;                 // all, as they were made
};

}  // namespace cachalot
