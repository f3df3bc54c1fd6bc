// SPDX-License-Identifier: MIT OR Apache-2.0
// Exact peaks of what many shards count by themselves.
//
// Note [Peaks]
// Rationale: the peak of a sum can only be found by looking at the sum, which would be one line of
// memory that all threads write at each call.
// Approach: for each counter and row every shard s has a limit L_s that its current value C_s does
// not pass, and a reserve R is kept here. The peak is never stored: it is P = R + sum of all L_s.
//   - Below its limit a shard writes nothing that others read. The sum of all C_s is then at most P,
//     so no peak can have been missed.
//   - A shard that needs more takes it from R: P does not change (refill).
//   - Where R does not hold enough, the slack L_s - C_s of all shards is collected first: whoever
//     needs it visits them one after the other. From its visit on a shard has `joined`: it leaves
//     every move with L = C, what it does not need goes to R, so that R = P - sum of C_s exactly
//     once all have joined (`collected`).
//   - Only then can a move be told to be a new peak: what exceeds R raises P, and R is 0.
//   - Then the reserve is lent again: at once where there was enough after all, else after a while
//     without a new peak.
// One shard alone has all slack, and raises its limits itself.
// Invariants: R >= 0 and L >= C for each counter, row and shard; P is raised only while collected,
// and only by what the sum exceeds it by. A move takes place in the moment of the shard's unlock, or
// of the order lock inside it, so calls that follow each other in time do so here.
// Lock order: a shard's lock before the order lock; nothing is locked behind that.
//
// Note [Pictures]
// Rationale: statistics are a picture of one moment, but holding all shards while they are added up
// would hold up the hits of all.
// Approach: the moment is when kReading is set. A call that sees it comes later, and first keeps what
// its shard was then (`pictured`). The reserve is kept by the first who then takes the order lock, so
// whoever takes it looks again, while nothing has changed yet, and comes later if it sees it now. The
// reader visits all shards for those that nobody used meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "alloc/counters.h"
#include "alloc/duties.h"
#include "alloc/stats.h"
#include "base/lock.h"

namespace cachalot {

// What a shard counts, with its part in the two protocols.
struct Account {
  Counters counters;
  uint64_t joined = 0;            // the last collection that it gave its slack to
  uint64_t active = 0;            // the period of lending in which it last asked for something
  std::atomic<bool> away{false};  // it has no slack, and its lock is held for long
  uint64_t pictured = 0;          // the reading that `picture` is for
  Counters::Rows picture;
};

class Peaks : private Duty {
 public:
  explicit Peaks(Duties& duties) : duties_(duties) {}

  // What a shard is lent at a time; less of it, and calls come here more often. Only tests set it.
  inline static int64_t largest_share = INT64_MAX;

  // Moves what the shard can not by itself. False: nothing has changed; collect first.
  // pre (here and below): the lock of the account's shard, or the whole device.
  bool move(Account& account, bool is_small, const Counters::Move& move);
  // Whether its moves have to come here while kScarce is set.
  bool has_joined(const Account& account) const { return account.joined == collection(); }

  // ---- Collecting (one at a time, and not while it is read)
  uint64_t collection() const { return collection_.load(std::memory_order_relaxed); }
  bool is_collected();
  void begin_collection();
  void visit(Account& account);  // each but those that are away
  void end_collection();
  // pre: the whole device, which is let go next; the caller drops kScarce.
  void lend_again();
  // Its slack is given back: where it is new, or the device's only shard no longer, or all start anew.
  void enter(Account& account);
  // Its lock is about to be held for long, so it is not visited meanwhile.
  void leave(Account& account);
  void come_back(Account& account);

  // ---- Reading
  void begin_reading();  // one at a time; pre: the device's lock, and not the whole device
  static void picture(Account& account, uint64_t reading);
  uint64_t reading() const { return reading_.load(); }
  void end_reading();

  // What is added up is the present for the whole device, else the last picture.
  struct Sums {
    void add(const Counters::Rows& other);
    Counters::Rows rows;
  };
  void write(const Sums& shards, bool from_picture, Stats* stats) const;
  bool is_sound() const;  // the auditor: no reserve is below 0

  // pre: the whole device.
  void reset_peak();                           // all accounts have been entered anew
  void reset_accumulated(const Sums& shards);  // the shards do their part themselves

 private:
  static constexpr size_t kCounters = Counters::kCounters;
  static constexpr size_t kRowCount = Counters::kRowCount;
  using Reserve = std::array<std::array<int64_t, Counters::kCounters>, Counters::kRowCount>;

  void see_to_picture(Account& account);
  void keep_reserve();
  void note_activity(Account& account);
  static void take_slack(Account& account, Reserve* to);
  void give_slack_back(Account& account);
  void settle_down(bool is_new_peak);
  bool move_exactly(Account& account, Counters::RowName kind, const Counters::Move& move);
  bool refill_and_move(Account& account, Counters::RowName kind, const Counters::Move& move);
  void lend();
  Stat stat(const Sums& sums, const Reserve& reserve, size_t row, size_t counter) const;

  Duties& duties_;
  alignas(64) Lock order_;
  bool scarce_ = false;
  bool collected_ = false;
  int64_t calm_ = 0;      // moves since the last new peak, while collected
  int64_t patience_ = 1;  // so many of them, and the reserve is lent again
  std::atomic<uint64_t> collection_{0};
  uint64_t period_ = 1;          // of lending
  int64_t active_ = 0;           // shards that asked in it
  int64_t expected_active_ = 1;  // by the one before
  alignas(64) Reserve reserve_{};
  alignas(64) Reserve share_{};  // what a shard is lent at a time
  Reserve gathered_{};           // by the present collection
  std::atomic<uint64_t> reading_{0};
  uint64_t reserve_kept_for_ = 0;
  Reserve kept_reserve_{};
  Reserve base_{};  // current at the last reset of the sums
};

}  // namespace cachalot
