// SPDX-License-Identifier: MIT OR Apache-2.0
// Exact peaks of what many shards count by themselves.
//
// Note [Peaks]
// Rationale: the peak of a sum can only be found by looking at the sum. A sum of all shards in one place
// would be a line of memory that all threads write at each call.
// Approach: shards count in accounts. The order lock guards the shared account; a shard that threads
// compete for has an account of its own. For each counter and row every account a has a limit L_a, which
// its current value C_a does not pass. L_a - C_a is the headroom of a. The headroom of the shared account
// is the spare headroom, which own accounts borrow from. The peak is never stored: it is P, the sum of
// all L_a.
//   - Below its limit a shard with its own account writes nothing that others read. The sum of all C_a
//     is then at most P, so no peak is missed.
//   - A shard that needs more borrows spare headroom: P does not change.
//   - Where the spare headroom is too little, the shard recalls all that is lent: it visits the accounts
//     of the others one after the other. From its visit on an account has `joined` the recall: each of
//     its moves ends with L = C, and returns what it does not need. So once all have joined, the spare
//     headroom is exactly P - sum of C_a, and the headroom is `recalled`.
//   - Only then can a move be told to be a new peak: it raises P by what exceeds the spare headroom.
//   - Then the spare headroom is lent again: at once where it was enough after all, else after a while
//     without a new peak.
// While no shard has its own account, a move raises the limits of the shared one at once, and nothing is
// ever recalled. The device's only shard has its own account with all headroom, and raises its limits
// itself.
// Invariants: L >= C for each counter, row and account. P rises only while the headroom is recalled, or
// by an account that has all headroom, and only by what the sum exceeds it by. A move takes place in the
// moment of the shard's unlock, or of the order lock inside it, so calls that follow each other in time
// do so here.
//
// Note [Accounts]
// Rationale: an account of its own pays for a shard that is busy while others are. For a thread that
// goes from stream to stream it does not: at the peak, each step would recall what the last one borrowed.
// Approach: a shard begins with the shared account. It gets its own when it meets another thread at the
// order lock, or after kOwnAccountRun moves in a row of the shared account. It loses it after kIdleVisits
// recalls in a row before each of which it had done next to nothing.
// Invariants: a shard that uses the shared account has nothing in its own.
//
// Note [Reading statistics]
// Rationale: statistics show one moment. Holding all shards while their accounts are added up would hold
// up the hits of all.
// Approach: the moment is the one in which kReading is set. A call that sees the flag comes later, and
// first preserves what its shard's account was then (`preserved_for`). The first such call that takes the
// order lock preserves the shared account: each call looks at the flag once more under that lock, while
// it has changed nothing yet. The reader visits all shards, and preserves for those that no call used
// meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "alloc/stats/active_counts.h"
#include "alloc/stats/counters.h"
#include "alloc/stats/stats.h"
#include "alloc/sync/slow_path_flags.h"
#include "base/lock.h"

namespace cachalot {

// What a shard counts, with its part in the two protocols.
struct Account {
  Counters counters;
  bool is_shared = false;   // the shared account counts for it; `counters` is empty
  bool met_others = false;  // at the order lock, since the last visit
  int idle_visits = 0;      // in a row
  int64_t frees_when_visited = 0;
  uint64_t joined = 0;            // the last recall that it returned its headroom to
  uint64_t active = 0;            // the period of lending in which it last asked for something
  std::atomic<bool> away{false};  // it has no headroom, and its lock is held for long
  uint64_t preserved_for = 0;     // the reading that `preserved` is for
  std::unique_ptr<Counters::Rows> preserved;  // made at the first reading
};

class Peaks : private SlowPath {
 public:
  explicit Peaks(SlowPathFlags& flags) : flags_(flags) {}

  // What a shard borrows at a time; with less of it calls come here more often. Only tests set it.
  inline static int64_t largest_loan = INT64_MAX;
  // False: each shard keeps an account of its own. Only tests set it.
  inline static bool shares_account = true;

  // Of a shard that is new, or the device's only shard no longer.
  // pre (here and below): the lock of the account's shard, or the whole device.
  void open(Account& account, bool is_alone);
  void open_next_to_others(Account& account);

  // Moves what the shard cannot by itself. False: nothing has changed; recall headroom first.
  bool move(Account& account, bool is_small, const Counters::Move& move);
  // Hits of a shard that uses the shared account. False: nothing has changed.
  // count(counters, row of the kind): whether the counters agreed.
  template <class Count>
  bool count_shared(Account& account, bool is_small, Count count);
  // Whether a freed block is still active. Before the first one, begin_waiting(): pre: the whole device.
  bool has_waiting() const { return active_counts_.are_apart(); }
  struct Sums;
  void begin_waiting(const Sums& sums);
  // Whether its moves have to come here while kScarce is set.
  bool has_joined(const Account& account) const { return account.joined == recall_number(); }

  // ---- Recalling headroom (one at a time, and not during a reading)
  uint64_t recall_number() const { return recall_number_.load(std::memory_order_relaxed); }
  bool is_recalled();
  void begin_recall();
  // Each but those that are away. for_a_move: the recall serves a move, not the whole device.
  void visit(Account& account, bool for_a_move);
  void end_recall();
  // pre: the whole device, which is let go next; the caller drops kScarce.
  void lend_again();
  // The account returns its headroom.
  void return_headroom(Account& account);
  // The shard's lock is about to be held for long, so no recall visits the account meanwhile.
  void leave(Account& account);
  void come_back(Account& account);

  // ---- Reading
  // Makes room for what a reading preserves of an account. Throws std::bad_alloc.
  static void prepare_reading(Account& account);
  // All accounts are prepared. One at a time; pre: the device's lock, and not the whole device.
  void begin_reading();
  static void preserve(Account& account, uint64_t reading);
  uint64_t reading() const { return reading_.load(); }
  void end_reading();

  // Of all accounts: the present ones for the whole device, else what the last reading preserved.
  struct Sums {
    void add(const Counters::Rows& other);
    Counters::Rows rows;
  };
  const Counters::Rows& shared() const { return shared_.rows(); }
  const Counters::Rows& preserved_shared() const { return preserved_shared_; }
  void write(const Sums& sums, Stats* stats) const;
  bool is_sound() const;  // the auditor: the shared account has passed no limit

  // pre: the whole device.
  void reset_peak();                         // all accounts have been entered anew
  void reset_accumulated(const Sums& sums);  // the shards do their part themselves

 private:
  static constexpr size_t kCounters = Counters::kCounters;
  static constexpr size_t kRowCount = Counters::kRowCount;
  static constexpr int kOwnAccountRun = 64;
  static constexpr int kIdleVisits = 2;
  static constexpr int64_t kFewFrees = 8;
  using Amounts = std::array<std::array<int64_t, Counters::kCounters>, Counters::kRowCount>;

  bool move_account(Account& account, bool is_small, const Counters::Move& move);
  bool lock_order();  // false: another thread had it
  void preserve_if_read(Account& account);
  void preserve_shared();
  void note_activity(uint64_t& active);
  void note_use_of_shared(Account& account, bool met_others);
  void give_own_account(Account& account);
  void take_own_account(Account& account);
  static void take_headroom(Account& account, Amounts* to);
  void add_to_spare(Amounts* amounts);
  void join_recall(Account& account);
  void lend_if_calm(bool is_new_peak);
  bool move_shared(bool is_small, const Counters::Move& move);
  bool move_exactly(Account& account, Counters::RowName kind, const Counters::Move& move);
  bool borrow_and_move(Account& account, Counters::RowName kind, const Counters::Move& move);
  void lend();
  Stat stat(const Sums& sums, size_t row, size_t counter) const;

  SlowPathFlags& flags_;
  alignas(64) Lock order_{LockRank::kAccountOrder};
  bool scarce_ = false;
  bool recalled_ = false;
  const Account* last_user_ = nullptr;  // of the shared account
  int run_ = 0;                         // its moves in a row
  int64_t own_accounts_ = 0;
  int64_t calm_ = 0;      // moves since the last new peak, while the headroom is recalled
  int64_t patience_ = 1;  // so many of them, and the spare headroom is lent again
  std::atomic<uint64_t> recall_number_{0};
  uint64_t period_ = 1;          // of lending
  int64_t active_ = 0;           // accounts that asked in it
  uint64_t shared_active_ = 0;   // the period in which the shared account was last used
  int64_t expected_active_ = 1;  // by the one before
  Counters shared_;              // its headroom is the spare headroom
  Amounts loan_{};               // what a shard borrows at a time
  Amounts gathered_{};           // by the present recall
  std::atomic<uint64_t> reading_{0};
  uint64_t shared_preserved_for_ = 0;
  Counters::Rows preserved_shared_;
  ActiveCounts active_counts_;
  Amounts base_{};  // current at the last reset of the sums
};

// False: another thread had it.
inline bool Peaks::lock_order() {
  if (order_.try_lock()) [[likely]]
    return true;
  order_.lock();
  return false;
}

// See Note [Accounts]. pre: order_.
inline void Peaks::note_use_of_shared(Account& account, bool met_others) {
  run_ = last_user_ == &account ? run_ + 1 : 0;
  last_user_ = &account;
  if (met_others || run_ >= kOwnAccountRun) [[unlikely]]
    give_own_account(account);
}

// A hit saw no flag, but one may have been set before it had the lock: see Note [Reading statistics].
template <class Count>
[[gnu::always_inline]] inline bool Peaks::count_shared(Account& account, bool is_small,
                                                       Count count) {
  const bool met_others = !lock_order();
  const bool has_moved = flags_.none() && count(shared_, shared_.row(Counters::kind_of(is_small)));
  if (has_moved) note_use_of_shared(account, met_others);
  order_.unlock();
  return has_moved;
}

}  // namespace cachalot
