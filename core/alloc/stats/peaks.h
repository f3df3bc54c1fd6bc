// SPDX-License-Identifier: MIT OR Apache-2.0
// Exact peaks of counts that many shards keep by themselves.
//
// Note [Peaks]
// Rationale: the peak of a sum can only be found by looking at the sum. A sum of all shards in one
// place would be a line of memory that all threads write at each call.
// Approach: shards count in accounts (account.h). The order lock guards the shared account
// (shared_account.h); a shard that threads compete for has an account of its own. For each counter
// and row every account a has a limit L_a, which its current value C_a does not pass. L_a - C_a is
// the headroom of a. The headroom of the shared account is the spare headroom, which own accounts
// borrow from (headroom_lender.h). The peak is never stored: it is P, the sum of all L_a.
//   - Below its limit a shard with its own account writes nothing that others read. The sum of all C_a
//     is then at most P, so no peak is missed.
//   - A shard that needs more borrows spare headroom: P does not change.
//   - Where the spare headroom is too little, the shard recalls all that is lent (headroom_recall.h): it
//     visits the accounts of the others one after the other. An account joins the recall at its visit,
//     or before, when its shard takes the order lock. From then on each move of the account ends with
//     L = C, and returns what it does not need. So the recall is complete once all have joined: the spare
//     headroom is exactly P - sum of C_a.
//   - Only then can a move be told to be a new peak: it raises P by what exceeds the spare headroom.
//   - Then the spare headroom is lent again: at once where it was enough after all, else after a while
//     without a new peak.
// While no shard has its own account, a move raises the limits of the shared one at once, and
// nothing is ever recalled. The device's only shard has its own account with all headroom, and
// raises its limits itself.
// Invariants: L >= C for each counter, row and account. P rises only while a recall is complete, or
// by an account that has all headroom, and only by the difference of the sum to P. A move takes
// place in the moment of the shard's unlock, or of the order lock inside it, so calls that follow
// each other in time do so here.
#pragma once

#include <cstdint>

#include "alloc/stats/account.h"
#include "alloc/stats/counters.h"
#include "alloc/stats/headroom_lender.h"
#include "alloc/stats/headroom_recall.h"
#include "alloc/stats/shard_stats.h"
#include "alloc/stats/shared_account.h"
#include "alloc/stats/stats.h"
#include "alloc/stats/stats_reading.h"
#include "alloc/sync/slow_path_flags.h"
#include "base/lock.h"

namespace cachalot {

// Owns the shared account with the order lock, the recall, the lender and the reading; the accounts
// of shards belong to the shards. Which lock a function needs is said at each group: an account
// needs its shard's lock, all else the order lock, which is taken here.
class Peaks : private SlowPath {
 public:
  using Sums = ShardStats::Sums;

  explicit Peaks(SlowPathFlags& flags) : flags_(flags) {}

  // False: each shard keeps an account of its own. Only tests set it.
  inline static bool shares_account = true;

  // Of a shard that is new, or the device's only shard no longer.
  // pre (here and below): the lock of the account's shard, or the whole device.
  void open(Account& account, bool is_alone);
  void open_next_to_others(Account& account);

  // A move that the shard cannot make by itself. False: nothing has changed; recall headroom first.
  bool move(Account& account, bool is_small, const Counters::Move& move);
  // Hits of a shard that uses the shared account. False: nothing has changed.
  // count(counters, row of the kind): whether the counters agreed.
  template <class Count>
  bool count_shared(Account& account, bool is_small, Count count);
  // Whether the account, or the shared one for it, has all headroom: then it refuses no move. pre:
  // the device is used as a whole.
  bool counts_all(const Account& account) const {
    return account.counters.is_alone() || (account.is_shared && shared_.is_alone());
  }
  // Hits of a device that is used as a whole. pre: counts_all().
  template <class Count>
  bool count_of_whole(Account& account, bool is_small, Count count);
  // Whether a freed block is still active. Before the first one, begin_waiting(): pre: the whole
  // device.
  bool has_waiting() const { return stats_.has_waiting(); }
  void begin_waiting(const Sums& sums);
  // Whether its moves have to come here while kScarce is set.
  bool has_joined(const Account& account) const { return account.joined == recall_number(); }

  // ---- Recalling headroom (one at a time, and not during a reading)
  uint64_t recall_number() const { return recall_.number(); }
  bool is_recalled();
  void begin_recall();
  // pre: the account is not away. for_a_move: the recall serves a move, not the whole device.
  void visit(Account& account, bool for_a_move);
  void end_recall();
  // pre: the whole device, which the caller unlocks next.
  void lend_again();
  // The account returns its headroom.
  void return_headroom(Account& account);
  // The shard's lock is about to be held for long, so no recall visits the account meanwhile.
  void leave(Account& account);
  void come_back(Account& account);

  // ---- Reading: see Note [Reading statistics]
  // One at a time. Throws std::bad_alloc, and then no reading has begun.
  // pre: the device's lock, and not the whole device; all accounts are prepared.
  void begin_reading();
  uint64_t reading_number() const { return reading_.number(); }
  static void preserve(Account& account, uint64_t reading);
  void end_reading();

  // ---- Statistics
  // The shared account's part of the sums: its present rows for the whole device, else the rows that
  // the last reading preserved.
  const Counters::Rows& shared() const { return shared_.rows(); }
  const Counters::Rows& preserved_shared() const { return reading_.shared(); }
  void write(const Sums& sums, Stats* stats) const { stats_.write(sums, stats); }
  bool is_sound() const { return shared_.is_sound(); }  // the auditor: no limit is passed

  // pre: the whole device.
  void reset_peak();                         // all accounts have returned their headroom
  void reset_accumulated(const Sums& sums);  // the shards do their part themselves

 private:
  // move() without the count of frees that wait.
  bool move_account(Account& account, bool is_small, const Counters::Move& move);
  // pre (here and below, where nothing else is said): the order lock.
  void preserve_if_read(Account& account);
  void preserve_shared();
  void note_use_of_shared(Account& account, bool met_others);
  // The shard counts in an account of its own from the next move on, or in the shared one again.
  void give_own_account(Account& account);
  void take_own_account(Account& account);
  void join_recall(Account& account);
  // Ends the time without loans where moves have been calm.
  void note_move_while_recalled(bool is_new_peak);
  // The three ways of a move: in the shared account; in an own account while headroom is recalled;
  // in an own account that borrows first. False: a recall has to come first.
  bool move_shared(bool is_small, const Counters::Move& move);
  bool move_recalled(Account& account, Counters::RowName kind, const Counters::Move& move);
  bool borrow_and_move(Account& account, Counters::RowName kind, const Counters::Move& move);
  void lend();

  SlowPathFlags& flags_;
  SharedAccount shared_;  // with the order lock
  HeadroomRecall recall_{flags_};
  HeadroomLender lender_;
  uint64_t shared_borrowed_in_ = 0;  // the period in which the shared account was last used
  StatsReading reading_{flags_};
  ShardStats stats_;
};

// pre: the order lock.
inline void Peaks::note_use_of_shared(Account& account, bool met_others) {
  if (shared_.note_use(account, met_others)) [[unlikely]]
    give_own_account(account);
}

template <class Count>
[[gnu::always_inline]] inline bool Peaks::count_of_whole(Account& account, bool is_small,
                                                         Count count) {
  CACHALOT_ASSERT(1, counts_all(account));
  const Counters::RowName kind = Counters::kind_of(is_small);
  if (account.counters.is_alone()) return count(account.counters, account.counters.row(kind));
  // No other thread moves the shared account while the device is used as a whole.
  return count(shared_.counters(), shared_.counters().row(kind));
}

// A hit saw no flag, but one may have been set before it had the lock: see Note [Reading
// statistics].
template <class Count>
[[gnu::always_inline]] inline bool Peaks::count_shared(Account& account, bool is_small,
                                                       Count count) {
  const bool met_others = !shared_.lock_order();
  // With a name for the counters GCC 12 keeps their address on the stack: 2 instructions more.
  const bool has_moved =
      flags_.none() &&
      count(shared_.counters(), shared_.counters().row(Counters::kind_of(is_small)));
  if (has_moved) note_use_of_shared(account, met_others);
  shared_.order().unlock();
  return has_moved;
}

}  // namespace cachalot
