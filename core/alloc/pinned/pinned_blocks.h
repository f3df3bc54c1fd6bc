// SPDX-License-Identifier: MIT OR Apache-2.0
// The objects of pinned blocks, and the way to them by address.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "alloc/heap/address_table.h"
#include "alloc/pinned/pinned_block.h"
#include "base/mutex.h"

namespace cachalot {

// Note [Looking a pinned block up]
// Rationale: a free knows an address only, and must not wait for other threads to find its block.
// Approach: the table of addresses (heap/address_table.h) gives the number of the block that begins there. It takes
// four reads, each of which needs the one before, so what was found last is kept in a small table beside it. Both are
// guesses: whoever asks compares the address under the lock of the block's cache.
// Invariants: an object is never given back to the system before the end, so a guess can always be looked at; an object
// that stands for no block has the address 0, which no lookup asks for.
//
// Owns all objects. An object that stands for no block serves the next one. Any thread.
class PinnedBlocks {
 public:
  PinnedBlocks() = default;
  PinnedBlocks(const PinnedBlocks&) = delete;
  PinnedBlocks& operator=(const PinnedBlocks&) = delete;

  // An object for a block that is to come. Throws std::bad_alloc.
  PinnedBlock* take();
  // The object stands for memory at this address from now on. Throws std::bad_alloc, and nothing has changed.
  // pre: take() gave it; the address is a multiple of kAlignment.
  void put(PinnedBlock* block, Address address);
  // The object stands for no block any more; its memory may go from here on. pre: no list has it.
  void forget(PinnedBlock* block);
  // The object serves another block. pre: it stands for none.
  void give(PinnedBlock* block);

  // The object that stood for a block at this address when it was looked at; null: none did. Whoever asks
  // looks at the address again under the lock of the block's cache.
  [[gnu::always_inline]] PinnedBlock* find(Address address) const {
    if (address == 0) [[unlikely]]
      return nullptr;  // which is what objects say that stand for no block
    PinnedBlock* const hinted = hint(address).load(std::memory_order_acquire);
    if (hinted != nullptr && hinted->address.load(std::memory_order_acquire) == address) [[likely]]
      return hinted;
    return find_in_table(address);
  }

  // Calls `see` with each object that stands for a block, in the order in which objects were made.
  template <class See>
  void for_each(See see) const {
    for (uint32_t number = 1; number <= made_; number++) {
      PinnedBlock* const block = at(number);
      if (block->address.load(std::memory_order_acquire) != 0) see(block);
    }
  }

  static constexpr uint64_t kAlignment = AddressTable::kGranule;

 private:
  static constexpr uint32_t kChunk = 4096;  // objects
  static constexpr uint32_t kChunks = 1024;
  struct Chunk {
    PinnedBlock blocks[kChunk];
  };

  // What was looked up last of the addresses that share a place. The table takes four reads that wait for each
  // other, this one.
  static constexpr uint64_t kHints = 1024;
  std::atomic<PinnedBlock*>& hint(Address address) const {
    return hints_[(address / 4096 ^ address / (512 * KiB) ^ address / 512 % 8) % kHints];
  }
  PinnedBlock* find_in_table(Address address) const;

  PinnedBlock* at(uint32_t number) const {
    return &chunks_[number / kChunk]->blocks[number % kChunk];
  }

  mutable std::array<std::atomic<PinnedBlock*>, kHints> hints_{};
  AddressTable numbers_;
  Mutex lock_{LockRank::kPinnedBlocks};
  PinnedBlock* unused_ = nullptr;  // linked through `next`; guarded by lock_
  std::atomic<uint32_t> made_{0};  // numbers begin at 1
  std::array<std::unique_ptr<Chunk>, kChunks> chunks_;
};

}  // namespace cachalot
