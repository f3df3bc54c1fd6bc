// SPDX-License-Identifier: MIT OR Apache-2.0
// The cached blocks of a pool of pinned memory, by size [pinned 1.4], and what is handed out of each size.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "alloc/config/rules.h"
#include "alloc/pinned/pinned_block.h"
#include "alloc/stats/pinned_stats.h"
#include "base/assert.h"
#include "base/lock.h"

namespace cachalot {

// Note [Classes of pinned blocks]
// Rationale: the reference hands blocks out whole, so blocks of one size are alike, and the one that was used last is
// the likeliest to be in a cache of the processor.
// Approach: a class for each power of two is a stack, linked through the blocks, so that no call needs memory. With
// sizes that are not rounded the blocks of a class differ, and a request takes the first from the top that is large
// enough. That walk is the reference's too: it is as long as the class has smaller blocks above.
// A class has a lock of its own, and the counters of its blocks lie beside the lock: a hit writes to the lines of
// its class and of its block, and threads that use other sizes share none of them.
// Limitations: threads that use one size wait for each other; the lock moves seldom then (base/lock.h).
//
// Note [Whose figures]
// Approach: the peak of an active figure is a sum over classes [pinned 5.4]. Where the pools of graphs count apart, each
// cache counts for itself. In 2.11 they do not, so the caches of pools count in the classes of the default one. That
// takes the lock of another class, which no call may hold beside its own: it counts behind it.
//
// Owns the free blocks. Class k has the blocks above 2^(k-1) bytes up to 2^k; each has a lock. Any thread.
class PinnedCache {
 public:
  // counted_in: the cache whose classes count what is handed out here [pinned 5.4]; null: this one.
  explicit PinnedCache(const Rules& rules, PinnedCache* counted_in = nullptr)
      : rules_(rules), counted_in_(counted_in) {}
  PinnedCache(const PinnedCache&) = delete;
  PinnedCache& operator=(const PinnedCache&) = delete;

  // (here and below) is_captured: the request's stream is captured.
  // The block that came back last of those of the class that hold `size` bytes, handed out; null: there is none.
  PinnedBlock* take(uint64_t size, bool is_captured);
  // A new block is handed out.
  void add_used(PinnedBlock* block, bool is_captured);

  // What becomes of a block that its caller frees.
  enum class Freed {
    kUnknown,  // no block at this address is handed out
    kDone,     // it is cached, or the caller's where it is not to be kept
    kWaits,    // streams use it: it is the caller's until complete()
    kLost,     // [pinned 6.3]
  };
  // (here and below) keeps: the block may be cached; else it is in no list afterwards.
  Freed free(PinnedBlock* block, Address address, bool keeps);
  // The streams are done with a block.
  void complete(PinnedBlock* block, bool keeps);
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
  // Two lines of the cache: what a hit compares and links, and what it counts.
  struct alignas(64) Class {
    Lock lock{LockRank::kPinnedClass, Lock::Looks::kSeldom};
    PinnedBlock* top = nullptr;
    Stat requests;
    Stat bytes;
  };

  static size_t class_of(uint64_t size) {
    CACHALOT_ASSERT(1, size > 0);
    return static_cast<size_t>(std::bit_width(size - 1));
  }
  Class& home(const PinnedBlock* block) {
    return classes_[class_of(block->size.load(std::memory_order_relaxed))];
  }
  // (here and below) pre: the lock of the block's class.
  static void hand_out(PinnedBlock* block, bool is_captured);
  static void push(Class& home, PinnedBlock* block);
  // The block goes into its class, or with `keeps` false to the caller.
  static void end_use(Class& home, PinnedBlock* block, bool keeps);
  // What happens to the active figures.
  enum class Change { kHandedOut, kFreed, kCompleted };
  // Two halves: the first under the lock of the block's class, the second without it.
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
    } else if (rules_.counts_freed_pinned_memory) {
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

  const Rules& rules_;
  PinnedCache* const counted_in_;
  std::array<Class, kClasses> classes_;
};

}  // namespace cachalot
