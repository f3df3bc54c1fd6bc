// SPDX-License-Identifier: MIT OR Apache-2.0
// Freed blocks of pinned memory that streams still use [pinned 3.3, 3.4], and the events that say so.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "alloc/pinned/pinned_block.h"
#include "alloc/trace/log.h"
#include "base/lock.h"
#include "device/device.h"

namespace cachalot {

// Note [Frees of pinned memory that wait]
// Rationale: a copy without a wait is still to come when its block is freed. The host must not write into the block
// until then, and no stream orders the host's writes, so the stream of the next request says nothing.
// Approach: an event on each stream that uses the block is recorded when it is freed, and a queue keeps the block. A
// request looks at the oldest block only: the reference ends its look at the first event that is not done, also where
// events of other streams behind it are. Blocks are linked through themselves, and events are used again, so that a
// free needs no memory but for the first use of a block by so many streams.
//   Events are recorded without the lock of the queue. So two threads may queue their blocks in another order than
// that of their events; each order is one that the reference could have had.
// Invariants: a block in the queue has a use at least, and those before `uses_done` have given their events back.
//
// Owns the events that wait for their next use. Any thread.
class PinnedEvents {
 public:
  explicit PinnedEvents(Driver& driver);
  ~PinnedEvents();
  PinnedEvents(const PinnedEvents&) = delete;
  PinnedEvents& operator=(const PinnedEvents&) = delete;

  // Records an event on the stream, and notes it in the use. Gives what the driver says.
  DriverCode record(PinnedUse* use);
  // The event has come.
  void give_back(const PinnedUse& use);
  // Of a device.
  void destroy_idle(int device);

 private:
  // Of a device. There is room for all that were made, so that giving one back cannot fail.
  struct Events {
    std::vector<uint64_t> idle;  // the one that came last is used next
    size_t made = 0;
  };

  // An event that is idle, or a new one. pre: nothing is held but the lock of a queue.
  DriverCode take(int device, uint64_t* event);

  Driver& driver_;
  Lock lock_{LockRank::kPinnedEvents};
  std::vector<Events> events_;
};

// Owns the blocks of a pool that wait, in the order in which they were freed. Any thread.
class PinnedQueue {
 public:
  PinnedQueue(Driver& driver, PinnedEvents& events, Log& log)
      : driver_(driver), events_(events), log_(log) {}
  PinnedQueue(const PinnedQueue&) = delete;
  PinnedQueue& operator=(const PinnedQueue&) = delete;

  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }

  // The block waits from now on for the streams that use it. Where the driver refuses an event, or there is no
  // memory for one, it waits until there is one (U23). Throws nothing. pre: it is in no list.
  void add(PinnedBlock* block);
  // The oldest block, once its events have come; null: none waits, or the oldest one still does. Throws Error where
  // the driver does not tell, and the block goes on waiting (U23).
  PinnedBlock* take_done();
  // The oldest block, whose streams are waited for; null: none waits. Whatever the driver says.
  PinnedBlock* take_waited();

 private:
  // Records the events that the block does not have yet, up to the first that the driver refuses.
  void record_missing(PinnedBlock* block);
  // Asks the driver. Throws Error where that does not tell.
  bool is_done(PinnedBlock* block, const PinnedUse& use);
  // Says so once for each block, however often the driver is asked in vain.
  void keep_in_spite_of_failure(PinnedBlock* block, const char* text);
  // pre: lock_; the events of the first block have been given back.
  PinnedBlock* take_first();

  Driver& driver_;
  PinnedEvents& events_;
  Log& log_;
  Lock lock_{LockRank::kPinnedQueue};
  PinnedBlock* first_ = nullptr;  // linked through `next`
  PinnedBlock* last_ = nullptr;
  std::atomic<uint64_t> count_{0};
};

}  // namespace cachalot
