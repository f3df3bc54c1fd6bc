// SPDX-License-Identifier: MIT OR Apache-2.0
// Where the headroom is: lent to accounts, on its way back, or all in one place (Note [Peaks]).
#pragma once

#include <atomic>
#include <cstdint>

#include "alloc/stats/counters.h"
#include "alloc/sync/slow_path_flags.h"
#include "base/assert.h"

namespace cachalot {

// One recall at a time. kScarce is set from its begin to the next lending, and changes under the
// order lock, as the phase does. So an account joins a recall while the flag is set, and no hit of
// its shard gives it headroom afterwards. The gathered headroom belongs to the thread of the
// recall.
class HeadroomRecall : private SlowPath {
 public:
  explicit HeadroomRecall(SlowPathFlags& flags) : flags_(flags) {}

  bool is_lent() const { return phase_ == Phase::kLent; }
  bool is_under_way() const { return phase_ == Phase::kUnderWay; }
  // All headroom of own accounts is spare headroom, so a move can be told to be a new peak.
  bool is_complete() const { return phase_ == Phase::kComplete; }
  // Of the last recall that has begun.
  uint64_t number() const { return number_.load(std::memory_order_relaxed); }

  // pre (here and below): the order lock, except where a function is told to run without it.
  void begin() {
    CACHALOT_ASSERT(1, !is_under_way());
    phase_ = Phase::kUnderWay;
    number_++;
    flags_.add(kScarce);
  }
  // pre: the lock of the account's shard; the thread of the recall. The order lock is not needed,
  // so hits of other shards go on while the recall visits one.
  void gather_from(Counters& own) { own.move_headroom_to(&gathered_); }
  // The headroom that was gathered so far becomes spare headroom.
  void move_gathered_to(Counters& spare) { spare.move_headroom_from(&gathered_); }
  void end() {
    CACHALOT_ASSERT(1, is_under_way());
    CACHALOT_ASSERT(2, gathered_ == Counters::Amounts{});
    phase_ = Phase::kComplete;
  }
  // Accounts may borrow again.
  void lend_again() {
    CACHALOT_ASSERT(1, is_complete());
    phase_ = Phase::kLent;
    flags_.drop(kScarce);
  }

 private:
  enum class Phase { kLent, kUnderWay, kComplete };

  SlowPathFlags& flags_;
  // Apart from the spare headroom, because the thread of the recall does not hold the order lock
  // while it visits shards.
  Counters::Amounts gathered_{};  // by the present recall
  std::atomic<uint64_t> number_{0};
  Phase phase_ = Phase::kLent;
};

}  // namespace cachalot
