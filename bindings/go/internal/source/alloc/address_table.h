// SPDX-License-Identifier: MIT OR Apache-2.0
// From the address of a block to the number of its object.
//
// Note [Address table]
// Rationale: a free knows an address only, and must find its block without a lock.
// Approach: two levels. A directory has an entry for each GiB of a 47-bit address space; a leaf has an
// entry for each 64 KiB. Blocks of large pools are larger than 1 MiB, so at most one begins in a slot
// of 64 KiB, and the slot's entry names it. In small pools, and where a slot is not all of one
// segment, many blocks may begin in a slot: its entry leads to a table of 128 granules of 512 bytes.
// Such a table is taken when a block is to begin in the slot (make_room), so a segment that is hardly
// used takes hardly any memory. The leaves of addresses above 47 bits are in a map.
//   A reader needs no lock. Entries are not cleared when a block is freed: a reader takes the number
// that it finds as a guess, and checks under the lock of the block's shard that this block is used
// and has exactly this address. The check also finds double frees. So tables of granules may be used
// again for another slot, but are never unmapped before the end.
// Invariants: only the shard of a segment writes to slots that are all of this segment. Slots that
// segments share have their granules from the beginning. A page of a leaf goes back to the system only
// while no segment is in its range.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/stable_pool.h"
#include "base/units.h"
#include "device/device.h"

namespace cachalot {

class AddressTable {
 public:
  static constexpr uint64_t kGranule = 512;
  static constexpr uint64_t kSlot = 64 * KiB;

  // Where the number of the block that begins at an address goes.
  class Place {
   public:
    // False: make_room() comes first.
    bool has_room() const { return value_ != unbacked(); }

   private:
    friend class AddressTable;
    std::atomic<uint64_t>* entry_;
    uint64_t value_;
  };

  AddressTable();
  ~AddressTable();
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  // For a new segment or a newly mapped range. small: blocks may begin at any granule. Throws
  // std::bad_alloc. pre: the range can be memory (address_range.h), so that its end is an address.
  void prepare(Address address, uint64_t size, bool small);
  // What was prepared is given back: its granules serve other slots.
  void release(Address address, uint64_t size, bool small);
  // Gives the system what release() has left unused, if it is worth a call.
  void shrink();

  // pre (here and below): prepare() was called for a range that holds address.
  Place place(Address address) const {
    Place place;
    place.entry_ = &leaf(address)->entries[(address / kSlot) % kLeafEntries];
    place.value_ = place.entry_->load(std::memory_order_relaxed);
    return place;
  }
  // pre: the place of this address, which has room.
  static void set(Place place, Address address, uint32_t number) {
    if (place.value_ & kIsGranules) {
      granules(place.value_)
          ->numbers[(address / kGranule) % kGranulesPerSlot]
          .store(number, std::memory_order_release);
    } else {
      place.entry_->store(uint64_t{number} << 1, std::memory_order_release);
    }
  }
  void set(Address address, uint32_t number) { set(place(address), address, number); }
  // Throws std::bad_alloc.
  void make_room(Address address);

  // A guess; 0: no block begins there. Any thread.
  uint32_t find(Address address) const {
    const Leaf* found = leaf(address);
    if (!found) return 0;
    const uint64_t value =
        found->entries[(address / kSlot) % kLeafEntries].load(std::memory_order_acquire);
    if (value & kIsGranules) {
      return granules(value)->numbers[(address / kGranule) % kGranulesPerSlot].load(
          std::memory_order_acquire);
    }
    return static_cast<uint32_t>(value >> 1);
  }

  // Bytes taken from the system; it gives the pages of leaves as they are touched.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  using Entry = std::atomic<uint64_t>;  // block number * 2, or a Granules* with the lowest bit set
  static constexpr unsigned kDirectoryEnd = 47;
  static constexpr uint64_t kDirectoryEntries = uint64_t{1} << (kDirectoryEnd - 30);
  static constexpr uint64_t kLeafEntries = GiB / kSlot;
  static constexpr uint64_t kGranulesPerSlot = kSlot / kGranule;
  static constexpr uint64_t kIsGranules = 1;

  struct Granules {
    std::atomic<uint32_t> numbers[kGranulesPerSlot];
  };
  struct Leaf {
    Entry entries[kLeafEntries];
  };
  // Of a leaf: how many slots of prepared ranges are in each of its pages, and which pages may go.
  struct LeafUse {
    Leaf* leaf;
    std::array<uint32_t, 32> slots;
    uint32_t unused;
  };
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kSlotsPerPage = kPage / sizeof(Entry);
  static constexpr uint64_t kFewPages = 16;  // are kept for what comes next
  static_assert(sizeof(Leaf) / kPage == 32);

  Leaf* leaf(Address address) const {
    if (address >> kDirectoryEnd) [[unlikely]]
      return high_leaf(address);
    return directory_[address / GiB].load(std::memory_order_acquire);
  }
  Leaf* high_leaf(Address address) const;
  // What slots of small pools lead to until a block begins there: no number is in it.
  static uint64_t unbacked() { return reinterpret_cast<uint64_t>(&no_granules_) | kIsGranules; }
  static Granules* granules(uint64_t value) {
    return reinterpret_cast<Granules*>(value - kIsGranules);
  }
  Entry& entry(Address address) const {
    return leaf(address)->entries[(address / kSlot) % kLeafEntries];
  }
  void ensure_leaf(Address address);
  void count_slots(Address address, Address last, bool is_prepared);
  void release_granules(Address address, Address last);
  static void drop_page(LeafUse& use, uint64_t page);
  void ensure_granules(Entry& entry);

  static Granules no_granules_;

  std::atomic<Leaf*>* directory_;
  std::mutex growing_;
  mutable std::mutex high_lock_;
  std::unordered_map<uint64_t, Leaf*> high_;    // by address / GiB
  std::unordered_map<uint64_t, LeafUse> uses_;  // likewise, of all leaves; guarded by growing_
  StablePool<Granules> pool_;                   // guarded by growing_
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace cachalot
