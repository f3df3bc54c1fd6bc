// SPDX-License-Identifier: MIT OR Apache-2.0
// The cached blocks of a pool of pinned memory, by size [pinned 1.4], and what is handed out of each size.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "alloc/config/rules.h"
#include "alloc/pinned/pinned_block.h"
#include "alloc/stats/pinned_stats.h"
#include "base/assert.h"
#include "base/biased_lock.h"

namespace cachalot {

// Note [Classes of pinned blocks]
// Rationale: the reference hands blocks out whole, so blocks of one size are alike, and the one that was used last is
// the likeliest to be in a cache of the processor.
// Approach: a class for each power of two is a stack, linked through the blocks, so that no call needs memory. With
// sizes that are not rounded the blocks of a class differ, and a request takes the first from the top that is large
// enough. That walk is the reference's too: it is as long as the class has smaller blocks above.
// One lock guards all classes. A lock for each class was measured: where 16 threads used five sizes in turn, each call
// took its lock from another thread, and a pair took twice as long. The one lock moves seldom (base/lock.h), and the
// lines of the classes and of the blocks with it.
// Limitations: threads wait for each other also where each has a size of its own.
//
// Note [Whose figures]
// Approach: the peak of an active figure is a sum over classes [pinned 5.4]. Where the pools of graphs count apart, each
// cache counts for itself. In 2.11 they do not, so the caches of pools count in the classes of the default one. That
// takes the lock of another cache, which no call may hold beside its own: it counts behind it.
//
// Owns the free blocks. Class k has the blocks above 2^(k-1) bytes up to 2^k. Any thread.
class PinnedCache {
 public:
  // counted_in: the cache whose classes count what is handed out here [pinned 5.4]; null: this one.
  explicit PinnedCache(const Rules& rules, PinnedCache* counted_in = nullptr)
      : counts_frees_(rules.counts_freed_pinned_memory), counted_in_(counted_in) {}
  PinnedCache(const PinnedCache&) = delete;
  PinnedCache& operator=(const PinnedCache&) = delete;

  // (here and below) is_captured: the request's stream is captured.
  // The block that came back last of those of the class that hold `size` bytes, handed out; null: there is none.
  [[gnu::always_inline]] PinnedBlock* take(uint64_t size, bool is_captured) {
    Class& home = home_of(size);
    PinnedBlock* block = nullptr;
    uint64_t taken = 0;
    {
      const BiasedLock::Guard guard(lock_);
      block = home.top;
      if (block == nullptr) [[unlikely]]
        return nullptr;
      taken = size_of(block);
      if (taken >= size) [[likely]] {
        home.top = block->next;
      } else {
        block = take_below_top(home, size);
        if (block == nullptr) return nullptr;
        taken = size_of(block);
      }
      hand_out(block, is_captured);
      count(home, taken, Change::kHandedOut);
    }
    count_elsewhere(taken, Change::kHandedOut);
    return block;
  }
  // A new block is handed out.
  void add_used(PinnedBlock* block, bool is_captured);

  // What becomes of a block that its caller frees, or that its streams are done with.
  enum class Freed {
    kUnknown,  // no block at this address is handed out
    kCached,
    kNotKept,  // it is in no list: the caller's to give back
    kWaits,    // streams use it: it is the caller's until complete()
    kLost,     // [pinned 6.3]
  };
  // (here and below) largest_cached: a larger block is not kept [pinned 3.5]. The size is read under the lock, because the
  // object may stand for another block since the caller has looked it up.
  // A block that waits for streams counts as active until they are done, and one that is lost for ever.
  [[gnu::always_inline]] Freed free(PinnedBlock* block, Address address, uint64_t largest_cached) {
    uint64_t size = 0;
    Freed freed = Freed::kUnknown;
    {
      const BiasedLock::Guard guard(lock_);
      if (!is_used(block, address)) [[unlikely]]
        return Freed::kUnknown;
      if (!block->uses.empty()) [[unlikely]]
        return wait_or_lose(block);
      size = size_of(block);
      Class& home = home_of(size);
      count(home, size, Change::kFreed);
      freed = end_use(home, block, size <= largest_cached);
    }
    count_elsewhere(size, Change::kFreed);
    return freed;
  }
  // The streams are done with a block.
  Freed complete(PinnedBlock* block, uint64_t largest_cached);
  // A block that is in no list, and not handed out, is cached.
  void put(PinnedBlock* block);

  bool is_handed_out(const PinnedBlock* block, Address address);
  // A stream uses the block. False: it is not handed out.
  bool record_use(PinnedBlock* block, Address address, const PinnedUse& use);

  // Takes all free blocks, class by class from the smallest, and of each the one first that came back first. Throws
  // std::bad_alloc, and the classes that were not reached have theirs still.
  void take_all(std::vector<PinnedBlock*>* blocks);

  // Adds to the active figures.
  void add_stats(PinnedStats* stats);
  void reset_peaks();
  void reset_accumulated();
  // Adds the figures of the other cache, class by class, and sets those to 0.
  void take_stats_of(PinnedCache& other);
  // The auditor: empty, or the first thing that is wrong.
  std::string check();

 private:
  static constexpr size_t kClasses = 65;  // one for each number of bits that a size can have
  // Guarded by lock_. Two lines of the processor's cache: what a hit links, and what it counts.
  struct alignas(64) Class {
    PinnedBlock* top = nullptr;
    Stat requests;
    Stat bytes;
  };

  static uint64_t size_of(const PinnedBlock* block) {
    return block->size.load(std::memory_order_relaxed);
  }
  static size_t class_of(uint64_t size) {
    CACHALOT_ASSERT(1, size > 0);
    return static_cast<size_t>(std::bit_width(size - 1));
  }
  Class& home_of(uint64_t size) { return classes_[class_of(size)]; }
  Class& home(const PinnedBlock* block) { return home_of(size_of(block)); }
  // (here and below) pre: lock_.
  // The address is compared again, because the object may stand for another block since the caller has looked it up.
  static bool is_used(const PinnedBlock* block, Address address) {
    return block->state == PinnedBlock::State::kUsed &&
           block->address.load(std::memory_order_relaxed) == address;
  }
  static void hand_out(PinnedBlock* block, bool is_captured) {
    block->state = PinnedBlock::State::kUsed;
    block->is_captured = is_captured;
  }
  static void push(Class& home, PinnedBlock* block) {
    block->state = PinnedBlock::State::kFree;
    block->next = std::exchange(home.top, block);
  }
  static Freed end_use(Class& home, PinnedBlock* block, bool keeps) {
    if (keeps) [[likely]] {
      push(home, block);
      return Freed::kCached;
    }
    block->state = PinnedBlock::State::kNone;
    return Freed::kNotKept;
  }
  static Freed wait_or_lose(PinnedBlock* block) {
    block->state = block->is_captured ? PinnedBlock::State::kLost : PinnedBlock::State::kWaiting;
    return block->is_captured ? Freed::kLost : Freed::kWaits;
  }
  // The first from the top that has `size` bytes, out of its class; null: there is none.
  static PinnedBlock* take_below_top(Class& home, uint64_t size);
  // What happens to the active figures.
  enum class Change { kHandedOut, kFreed, kCompleted };
  // Two halves: the first under lock_, the second without it.
  void count(Class& home, uint64_t size, Change change) const {
    if (counted_in_ == nullptr) add(home, size, change);
  }
  void count_elsewhere(uint64_t size, Change change) const {
    if (counted_in_ != nullptr) [[unlikely]]
      count_in_other(size, change);
  }
  void count_in_other(uint64_t size, Change change) const;
  // [pinned 5.5]
  void add(Class& counting, uint64_t size, Change change) const {
    const auto bytes = static_cast<int64_t>(size);
    if (change == Change::kHandedOut) {
      counting.requests.increase(1);
      counting.bytes.increase(bytes);
    } else if (counts_frees_) {
      counting.requests.decrease(1);
      counting.bytes.decrease(bytes);
    } else if (change == Change::kCompleted) {
      counting.requests.decrease(1);
      counting.bytes.current += 1;
      counting.bytes.freed -= 1;
    }
  }
  template <class See>
  void for_each_class(See see);

  const bool counts_frees_;
  PinnedCache* const counted_in_;
  BiasedLock lock_{LockRank::kPinnedCache, Lock::Looks::kSeldom};
  std::array<Class, kClasses> classes_;
};

}  // namespace cachalot
