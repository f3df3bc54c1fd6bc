// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/peaks.h"

#include <mutex>
#include <utility>

namespace cachalot {
namespace {

using OrderGuard = std::lock_guard<Lock>;

}  // namespace

// ---- Accounts

// A new account has no headroom, so it has joined whatever recall there is.
void Peaks::open(Account& account, bool is_alone) {
  const OrderGuard guard(shared_.order());
  account.counters.set_alone(is_alone);
  account.is_shared = shares_account && !is_alone;
  account.joined = recall_number();
  if (!account.is_shared) shared_.add_own_account();
}

// The account was the only one and raised its limits by itself. Its headroom becomes spare
// headroom, so that the new shard can borrow it.
void Peaks::open_next_to_others(Account& account) {
  account.counters.set_alone(false);
  return_headroom(account);
}

// Not while hits are attributed: these wait for each other anyway, at the device's lock.
void Peaks::give_own_account(Account& account) {
  if (flags_.has(kAttribution)) return;
  account.become_own(recall_number());
  shared_.add_own_account();
}

// What the recall has gathered comes first: the shared account may be alone from now on, and then raises
// its limits without a look at the others.
void Peaks::take_own_account(Account& account) {
  shared_.order().assert_held();
  recall_.move_gathered_to(shared_.counters());
  shared_.take_over(account);
  shared_.remove_own_account();
}

// ---- Moving

bool Peaks::move(Account& account, bool is_small, const Counters::Move& move) {
  if (!move_account(account, is_small, move)) return false;
  stats_.note_move(is_small, move);
  return true;
}

bool Peaks::move_account(Account& account, bool is_small, const Counters::Move& move) {
  // The device's only shard: its limits are the peaks, and no other thread reads them.
  if (account.counters.is_alone()) return account.counters.move(is_small, move);
  const Counters::RowName kind = Counters::kind_of(is_small);
  const bool met_others = !shared_.lock_order();
  const OrderGuard guard(shared_.order(), std::adopt_lock);
  preserve_if_read(account);
  // Attributed hits wait for each other at the device's lock anyway, so an account of its own gains
  // nothing.
  if (!account.is_shared && flags_.has(kAttribution) && shares_account) {
    join_recall(account);
    take_own_account(account);
  }
  if (account.is_shared) {
    // The shared account counts as one borrower, however many shards use it.
    lender_.note_borrower(shared_borrowed_in_);
    if (!move_shared(is_small, move)) return false;
    note_use_of_shared(account, met_others);
    return true;
  }
  lender_.note_borrower(account.borrowed_in);
  account.met_others |= met_others;
  return recall_.is_lent() ? borrow_and_move(account, kind, move)
                           : move_recalled(account, kind, move);
}

// See Note [Reading statistics]. The call has changed nothing at the shard yet.
void Peaks::preserve_if_read(Account& account) {
  if (!reading_.is_under_way()) [[likely]]
    return;
  preserve(account, reading_number());
  preserve_shared();
}

// The first call of a reading preserves; StatsReading ignores later ones.
void Peaks::preserve_shared() {
  shared_.order().assert_held();
  reading_.preserve_shared(shared_.rows());
}

bool Peaks::move_shared(bool is_small, const Counters::Move& move) {
  shared_.order().assert_held();
  Counters& counters = shared_.counters();
  const bool is_new_peak = !counters.move(is_small, move);
  if (is_new_peak) {
    // Headroom is still lent, so the sum may be below the peak: nothing tells yet that this is a
    // new one.
    if (!recall_.is_complete()) return false;
    counters.move(counters.row(Counters::kind_of(is_small)), move, true);
  }
  if (recall_.is_complete()) note_move_while_recalled(is_new_peak);
  return true;
}

bool Peaks::borrow_and_move(Account& account, Counters::RowName kind, const Counters::Move& move) {
  return shared_.lend(account.counters, kind, move, lender_.loan()) &&
         account.counters.move(kind == Counters::kSmall, move);
}

// While headroom is recalled an account keeps none, so its limits are its current values. The move
// passes through the shared account, which alone knows how much is spare.
bool Peaks::move_recalled(Account& account, Counters::RowName kind, const Counters::Move& move) {
  if (!has_joined(account)) join_recall(account);
  const bool is_new_peak = !shared_.covers(kind, move);
  if (is_new_peak && !recall_.is_complete()) return false;
  shared_.move_for(account.counters, kind, move);
  if (recall_.is_complete()) note_move_while_recalled(is_new_peak);
  return true;
}

// A call that has the whole device lends when it lets the device go.
void Peaks::note_move_while_recalled(bool is_new_peak) {
  if (lender_.note_move(is_new_peak) && !flags_.has(kWholeDevice)) lend();
}

// ---- Recalling headroom

bool Peaks::is_recalled() {
  const OrderGuard guard(shared_.order());
  return recall_.is_complete();
}

// A recall moves limits from account to account, so a reading meanwhile would add some of them
// twice.
void Peaks::begin_recall() {
  CACHALOT_ASSERT(1, !reading_.is_under_way());
  const OrderGuard guard(shared_.order());
  recall_.begin();
}

// An account that has joined has no headroom, but it may have become idle.
void Peaks::visit(Account& account, bool for_a_move) {
  CACHALOT_ASSERT(1, !account.away.load());
  if (account.counters.is_alone() || account.is_shared) return;
  recall_.gather_from(account.counters);
  const uint64_t number = recall_number();
  const bool had_joined = std::exchange(account.joined, number) == number;
  if (!for_a_move || had_joined) return;
  if (!account.note_visit() || !shares_account) return;
  const OrderGuard guard(shared_.order());
  take_own_account(account);
}

// From here on the spare headroom is exactly the distance of the sum to its peak.
void Peaks::end_recall() {
  const OrderGuard guard(shared_.order());
  recall_.move_gathered_to(shared_.counters());
  recall_.end();
  lender_.begin_wait();
}

void Peaks::lend() {
  shared_.order().assert_held();
  recall_.lend_again();
  lender_.begin_period(shared_.rows());
}

void Peaks::lend_again() {
  CACHALOT_ASSERT(1, flags_.has(kWholeDevice));
  const OrderGuard guard(shared_.order());
  lend();
}

// What the account has left becomes spare at once: the thread of the recall need not visit it any
// more.
void Peaks::join_recall(Account& account) {
  shared_.order().assert_held();
  Counters::Amounts returned{};
  account.counters.move_headroom_to(&returned);
  shared_.counters().move_headroom_from(&returned);
  account.joined = recall_number();
}

void Peaks::return_headroom(Account& account) {
  const OrderGuard guard(shared_.order());
  join_recall(account);
}

// A shard that uses the shared account has no headroom of its own; it is away all the same, so no recall
// waits for its lock.
void Peaks::leave(Account& account) {
  if (account.counters.is_alone()) return;
  if (!account.is_shared) return_headroom(account);
  account.away.store(true);
}

// The account had no headroom while it was away.
void Peaks::come_back(Account& account) {
  if (account.counters.is_alone()) return;
  account.away.store(false);
  if (!account.is_shared) return_headroom(account);
}

// ---- Reading

void Peaks::begin_reading() {
  CACHALOT_ASSERT(1, !flags_.has(kWholeDevice));
  reading_.begin();
}

void Peaks::preserve(Account& account, uint64_t reading) {
  account.preserved.preserve(account.counters.rows(), reading);
}

void Peaks::end_reading() {
  {
    const OrderGuard guard(shared_.order());
    preserve_shared();
  }
  reading_.end();
}

// ---- Statistics

void Peaks::begin_waiting(const Sums& sums) {
  CACHALOT_ASSERT(1, flags_.has(kWholeDevice));
  stats_.begin_waiting(sums);
}

// Limits fall to the current values. Accounts have returned their headroom, so the shared one has
// all that is above.
void Peaks::reset_peak() {
  CACHALOT_ASSERT(1, flags_.has(kWholeDevice));
  shared_.drop_headroom();
  stats_.reset_peaks();
}

void Peaks::reset_accumulated(const Sums& sums) {
  CACHALOT_ASSERT(1, flags_.has(kWholeDevice));
  shared_.reset_accumulated();
  stats_.reset_accumulated(sums);
}

}  // namespace cachalot
