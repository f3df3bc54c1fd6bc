// SPDX-License-Identifier: MIT OR Apache-2.0
// The account that counts for all shards without one of their own, and has the headroom to lend.
#pragma once

#include <cstdint>

#include "alloc/stats/account.h"
#include "alloc/stats/counters.h"
#include "alloc/stats/headroom_lender.h"
#include "base/lock.h"

namespace cachalot {

// Owns the order lock and the counters. Invariant: the shared account is alone exactly while no
// shard has an account of its own, so it may then raise its limits without a look at others.
class SharedAccount {
 public:
  SharedAccount() { counters_.set_alone(true); }

  // Guards the account, and orders the moves that other accounts cannot make by themselves.
  Lock& order() { return order_; }
  // False: another thread had it.
  bool lock_order();

  // ---- pre (here and below): the order lock

  Counters& counters() { return counters_; }
  // A shard has used the account. True: it is to have its own, see Note [Accounts].
  bool note_use(const Account& user, bool met_others);
  // An account that is a shard's own comes or goes. Without any the shared account is alone.
  void add_own_account();
  void remove_own_account();
  // Takes in what an own account without headroom has counted.
  void take_over(Account& account);

  // Spare headroom is enough for the move.
  bool covers(Counters::RowName kind, const Counters::Move& move);
  // An own account borrows what it lacks for the move, and what it may borrow besides. False: there is
  // too little spare headroom, and nothing has changed.
  bool lend(Counters& own, Counters::RowName kind, const Counters::Move& move,
            const Counters::Amounts& loan);
  // An own account without headroom moves with spare headroom, and keeps none. What exceeds the spare
  // headroom raises the peak. pre: the move is covered, or the headroom is recalled.
  void move_for(Counters& own, Counters::RowName kind, const Counters::Move& move);

  // ---- pre: the whole device, or the order lock

  const Counters::Rows& rows() const { return counters_.rows(); }
  bool is_alone() const { return counters_.is_alone(); }  // no shard has an account of its own
  bool is_sound() const { return counters_.is_sound(); }
  // The limits become what is counted now. pre: no account has borrowed anything.
  void drop_headroom();
  void reset_accumulated() { counters_.reset_accumulated(); }

 private:
  static constexpr int kOwnAccountRun = 64;

  // The lock and the fields that hits write beside the counters share a line.
  alignas(64) Lock order_{LockRank::kAccountOrder};
  // Only compared, never read through: the account may be gone.
  const Account* last_user_ = nullptr;
  int run_ = 0;  // of moves by the last user
  int64_t own_accounts_ = 0;
  Counters counters_;  // their headroom is the spare headroom
};

inline bool SharedAccount::lock_order() {
  if (order_.try_lock()) [[likely]]
    return true;
  order_.lock();
  return false;
}

inline bool SharedAccount::note_use(const Account& user, bool met_others) {
  order_.assert_held();
  run_ = last_user_ == &user ? run_ + 1 : 0;
  last_user_ = &user;
  return met_others || run_ >= kOwnAccountRun;
}

}  // namespace cachalot
