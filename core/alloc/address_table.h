// SPDX-License-Identifier: MIT OR Apache-2.0
// From the address of a block to the number of its object.
//
// Note [Address table]
// Rationale: a free knows an address only, and must find its block without a lock.
// Approach: two levels. A directory has an entry for each GiB of a 47-bit address space; a leaf has an
// entry for each MiB. Blocks of large pools are larger than 1 MiB, so at most one begins in a MiB, and
// its entry names it. In small pools, and where a MiB is not all of one segment, many blocks may begin
// in a MiB: its entry leads to 16 parts of 64 KiB, each a table of 128 granules of 512 bytes. Both are
// made when a block is to begin in it (make_room), so a segment that is hardly used takes hardly any
// memory. The leaves of addresses above 47 bits are in a map.
//   A reader needs no lock. Entries are not cleared when a block is freed: a reader takes the number
// that it finds as a guess, and checks under the lock of the block's shard that this block is used
// and has exactly this address. The check also finds double frees. So parts may be used again for
// other addresses, but are never unmapped before the end.
// Invariants: only the shard of a segment writes to the entry of a MiB that is all of this segment. A
// MiB that segments share has parts from the beginning.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "base/assert.h"
#include "base/mutex.h"
#include "base/stable_pool.h"
#include "base/units.h"
#include "device/device.h"

namespace cachalot {

class AddressTable {
  struct Part;

 public:
  static constexpr uint64_t kGranule = 512;
  static constexpr uint64_t kPartSize = 64 * KiB;

  // Where the number of the block that begins at an address goes.
  class Place {
   public:
    // False: make_room() comes first.
    bool has_room() const { return place_ != 0; }

   private:
    friend class AddressTable;
    static constexpr uintptr_t kInPart = 1;
    explicit Place(uintptr_t place) : place_(place) {}

    uintptr_t place_;  // of an entry, or of a number in a part with the lowest bit set; 0: no room
  };

  AddressTable();
  ~AddressTable();
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  // For a new segment or a newly mapped range. small: blocks may begin at any granule. Throws
  // std::bad_alloc.
  void prepare(Address address, uint64_t size, bool small);
  // A range of a small pool is given back: its parts serve other addresses.
  void release(Address address, uint64_t size);
  // Gives the system what release() has left unused.
  void shrink();

  // pre (here and below): prepare() was called for a range that holds address.
  Place place(Address address) const {
    CACHALOT_ASSERT(1, is_prepared(address));
    Entry& in_leaf = entry(address);
    const uint64_t value = in_leaf.load(std::memory_order_acquire);
    if (!(value & kHasParts)) return Place(reinterpret_cast<uintptr_t>(&in_leaf));
    Part* const found = part(value, address).load(std::memory_order_acquire);
    if (found == &no_part) return Place(0);
    return Place(reinterpret_cast<uintptr_t>(&found->number(address)) | Place::kInPart);
  }
  // pre: the place of this address, which has room.
  static void set(Place place, uint32_t number) {
    CACHALOT_ASSERT(1, place.has_room());
    if (place.place_ & Place::kInPart) {
      reinterpret_cast<std::atomic<uint32_t>*>(place.place_ - Place::kInPart)
          ->store(number, std::memory_order_release);
    } else {
      reinterpret_cast<Entry*>(place.place_)
          ->store(uint64_t{number} << 1, std::memory_order_release);
    }
  }
  void set(Address address, uint32_t number) { set(place(address), number); }
  // Throws std::bad_alloc.
  void make_room(Address address);

  // A guess; 0: no block begins there. Any thread.
  [[gnu::always_inline]] uint32_t find(Address address) const {
    const Leaf* found = leaf(address);
    if (!found) return 0;
    const uint64_t value =
        found->entries[(address / MiB) % kLeafEntries].load(std::memory_order_acquire);
    if (value & kHasParts) {
      return part(value, address)
          .load(std::memory_order_acquire)
          ->number(address)
          .load(std::memory_order_acquire);
    }
    return static_cast<uint32_t>(value >> 1);
  }

  // Bytes taken from the system.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  using Entry = std::atomic<uint64_t>;  // block number * 2, or a Parts* with the lowest bit set
  static constexpr unsigned kDirectoryEnd = 47;
  static constexpr uint64_t kDirectoryEntries = uint64_t{1} << (kDirectoryEnd - 30);
  static constexpr uint64_t kLeafEntries = GiB / MiB;
  static constexpr uint64_t kHasParts = 1;
  static constexpr int kMoreParts = 3;

  struct Part {
    std::atomic<uint32_t> numbers[kPartSize / kGranule];

    std::atomic<uint32_t>& number(Address address) {
      return numbers[(address / kGranule) % (kPartSize / kGranule)];
    }
  };
  struct Parts {
    std::atomic<Part*> parts[MiB / kPartSize];
  };
  struct Leaf {
    Entry entries[kLeafEntries];
  };

  Leaf* leaf(Address address) const {
    if (address >> kDirectoryEnd) [[unlikely]]
      return high_leaf(address);
    return directory_[address / GiB].load(std::memory_order_acquire);
  }
  bool is_prepared(Address address) const { return leaf(address) != nullptr; }
  Leaf* high_leaf(Address address) const;
  Entry& entry(Address address) const {
    return leaf(address)->entries[(address / MiB) % kLeafEntries];
  }
  static Parts* parts_of(uint64_t value) {
    CACHALOT_ASSERT(1, (value & kHasParts) != 0);
    return reinterpret_cast<Parts*>(value - kHasParts);
  }
  static std::atomic<Part*>& part(uint64_t value, Address address) {
    return parts_of(value)->parts[(address / kPartSize) % (MiB / kPartSize)];
  }
  void ensure_leaf(Address address);
  static void mark(Entry& entry);
  void add_part(std::atomic<Part*>& place);
  void give_parts(Parts* parts);
  template <class T>
  T* take_from(StablePool<T>& pool);

  // Stand where no block has begun yet: no number is in them.
  static Part no_part;
  static Parts no_parts;

  std::atomic<Leaf*>* directory_;
  Mutex growing_{LockRank::kAddressTable};
  mutable Mutex high_lock_{LockRank::kHighAddresses};
  std::unordered_map<uint64_t, Leaf*> high_;  // by address / GiB
  StablePool<Part> part_pool_;                // guarded by growing_
  StablePool<Parts> parts_pool_;              // likewise
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace cachalot
