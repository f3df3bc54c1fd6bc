// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/peaks.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace cachalot {
namespace {

using Guard = std::lock_guard<Lock>;

}  // namespace

// ---- Accounts

void Peaks::open(Account& account, bool is_alone) {
  const Guard guard(order_);
  account.counters.set_alone(is_alone);
  account.is_shared = shares_account && !is_alone;
  account.joined = recall_number_;
  if (!account.is_shared) own_accounts_++;
  shared_.set_alone(own_accounts_ == 0);
}

void Peaks::open_next_to_others(Account& account) {
  account.counters.set_alone(false);
  return_headroom(account);
}

void Peaks::give_own_account(Account& account) {
  account.is_shared = false;
  account.met_others = false;
  account.idle_visits = 0;
  account.frees_when_visited = 0;
  account.joined = recall_number_;  // it has no headroom
  own_accounts_++;
  shared_.set_alone(false);
  run_ = 0;
}

// pre: it has no headroom. What the recall has gathered comes first: the shared account may be
// alone from now on, and then raises its limits without a look at the others.
void Peaks::take_own_account(Account& account) {
  const Guard guard(order_);
  add_to_spare(&gathered_);
  shared_.take_over(account.counters);
  account.is_shared = true;
  own_accounts_--;
  shared_.set_alone(own_accounts_ == 0);
}

// ---- Moving

bool Peaks::move(Account& account, bool is_small, const Counters::Move& move) {
  if (!move_account(account, is_small, move)) return false;
  if (active_counts_.are_apart() || move.waiting != 0) active_counts_.move(is_small, move);
  return true;
}

bool Peaks::move_account(Account& account, bool is_small, const Counters::Move& move) {
  if (account.counters.is_alone()) return account.counters.move(is_small, move);
  const Counters::RowName kind = Counters::kind_of(is_small);
  const bool met_others = !lock_order();
  const std::lock_guard guard(order_, std::adopt_lock);
  preserve_if_read(account);
  if (account.is_shared) {
    note_activity(shared_active_);
    if (!move_shared(is_small, move)) return false;
    note_use_of_shared(account, met_others);
    return true;
  }
  note_activity(account.active);
  account.met_others |= met_others;
  return scarce_ ? move_exactly(account, kind, move) : borrow_and_move(account, kind, move);
}

// See Note [Reading statistics]. pre (here and below): order_; the call has changed nothing at the shard.
void Peaks::preserve_if_read(Account& account) {
  if (!flags_.has(kReading)) [[likely]]
    return;
  preserve(account, reading_);
  preserve_shared();
}

void Peaks::preserve_shared() {
  if (shared_preserved_for_ == reading_) return;
  shared_preserved_for_ = reading_;
  preserved_shared_ = shared_.rows();
}

void Peaks::note_activity(uint64_t& active) {
  if (active == period_) return;
  active = period_;
  active_++;
}

void Peaks::take_headroom(Account& account, Amounts* to) {
  for (size_t name = 0; name < kRowCount; name++) {
    Counters::Row& row = account.counters.row(name);
    for (size_t counter = 0; counter < kCounters; counter++) {
      const int64_t headroom = row.headroom(counter);
      (*to)[name][counter] += headroom;
      row.raise_limit(counter, -headroom);
    }
  }
}

void Peaks::add_to_spare(Amounts* amounts) {
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++)
      shared_.row(name).raise_limit(counter, std::exchange((*amounts)[name][counter], 0));
  }
}

void Peaks::join_recall(Account& account) {
  Amounts given{};
  take_headroom(account, &given);
  add_to_spare(&given);
  account.joined = recall_number_;
}

bool Peaks::move_shared(bool is_small, const Counters::Move& move) {
  if (shared_.move(is_small, move)) {
    if (recalled_) lend_if_calm(false);
    return true;
  }
  if (!recalled_) return false;
  shared_.move(shared_.row(Counters::kind_of(is_small)), move, true);
  lend_if_calm(true);
  return true;
}

bool Peaks::move_exactly(Account& account, Counters::RowName kind, const Counters::Move& move) {
  if (account.joined != recall_number_) join_recall(account);
  int64_t signs = 0;
  for (const size_t name : {size_t{kind}, size_t{Counters::kAll}}) {
    for (size_t counter = 0; counter < kCounters; counter++)
      signs |= shared_.row(name).headroom(counter) - move.by[counter];
  }
  if (signs < 0 && !recalled_) return false;
  for (const size_t name : {size_t{kind}, size_t{Counters::kAll}}) {
    Counters::Row& spare = shared_.row(name);
    Counters::Row& row = account.counters.row(name);
    for (size_t counter = 0; counter < kCounters; counter++) {
      const int64_t by = move.by[counter];
      spare.raise_limit(counter, -std::min(by, spare.headroom(counter)));
      row.limit[counter] += by;
      if (name != Counters::kAll)
        row.freed[counter] = wrapping_add(row.freed[counter], -std::min<int64_t>(by, 0));
    }
  }
  if (recalled_) lend_if_calm(signs < 0);
  return true;
}

void Peaks::lend_if_calm(bool is_new_peak) {
  if (is_new_peak) {
    calm_ = 0;
    patience_ = 2 * active_;
  } else if (++calm_ >= patience_ && !flags_.has(kWholeDevice)) {
    lend();
    flags_.drop(kScarce);
  }
}

bool Peaks::borrow_and_move(Account& account, Counters::RowName kind, const Counters::Move& move) {
  for (const size_t name : {size_t{kind}, size_t{Counters::kAll}}) {
    const Counters::Row& row = account.counters.row(name);
    for (size_t counter = 0; counter < kCounters; counter++) {
      if (move.by[counter] - row.headroom(counter) > shared_.row(name).headroom(counter))
        return false;
    }
  }
  for (size_t name = 0; name < kRowCount; name++) {
    const bool moves = name == kind || name == Counters::kAll;
    Counters::Row& row = account.counters.row(name);
    Counters::Row& spare = shared_.row(name);
    for (size_t counter = 0; counter < kCounters; counter++) {
      const int64_t by = moves ? move.by[counter] : 0;
      const int64_t missing = by + loan_[name][counter] - row.headroom(counter);
      const int64_t taken = std::clamp<int64_t>(missing, 0, spare.headroom(counter));
      spare.raise_limit(counter, -taken);
      row.raise_limit(counter, taken);
    }
  }
  return account.counters.move(kind == Counters::kSmall, move);
}

// ---- Recalling headroom

bool Peaks::is_recalled() {
  const Guard guard(order_);
  return recalled_;
}

void Peaks::begin_recall() {
  const Guard guard(order_);
  scarce_ = true;
  recalled_ = false;
  recall_number_++;
}

// An account that has joined may have headroom again: kScarce is set after begin_recall().
void Peaks::visit(Account& account, bool for_a_move) {
  if (account.counters.is_alone() || account.is_shared) return;
  take_headroom(account, &gathered_);
  const bool had_joined = std::exchange(account.joined, recall_number_) == recall_number_;
  if (!for_a_move || had_joined) return;
  const int64_t frees = account.counters.frees();
  const bool is_idle = !std::exchange(account.met_others, false) &&
                       frees - std::exchange(account.frees_when_visited, frees) < kFewFrees;
  account.idle_visits = is_idle ? account.idle_visits + 1 : 0;
  if (account.idle_visits >= kIdleVisits && shares_account) take_own_account(account);
}

void Peaks::end_recall() {
  const Guard guard(order_);
  add_to_spare(&gathered_);
  recalled_ = true;
  calm_ = 0;
  patience_ = 1;
}

// pre: the headroom is recalled.
void Peaks::lend() {
  scarce_ = recalled_ = false;
  // Slowly down: a period is often too short for all to show up.
  expected_active_ = std::max<int64_t>({active_, expected_active_ - 1 - expected_active_ / 16, 1});
  active_ = 0;
  period_++;
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++)
      loan_[name][counter] =
          std::min(shared_.row(name).headroom(counter) * 2 / (3 * expected_active_), largest_loan);
  }
}

void Peaks::lend_again() {
  const Guard guard(order_);
  lend();
}

void Peaks::return_headroom(Account& account) {
  const Guard guard(order_);
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

void Peaks::prepare_reading(Account& account) {
  if (!account.preserved) account.preserved = std::make_unique<Counters::Rows>();
}

void Peaks::begin_reading() {
  reading_++;
  flags_.add(kReading);
}

void Peaks::preserve(Account& account, uint64_t reading) {
  if (account.preserved_for == reading) return;
  account.preserved_for = reading;
  *account.preserved = account.counters.rows();
}

void Peaks::end_reading() {
  {
    const Guard guard(order_);
    preserve_shared();
  }
  flags_.drop(kReading);
}

void Peaks::begin_waiting(const Sums& sums) { active_counts_.begin(sums.rows); }

void Peaks::Sums::add(const Counters::Rows& other) {
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++) {
      rows[name].head[counter] += other[name].head[counter];
      rows[name].freed[counter] =
          wrapping_add(rows[name].freed[counter], other[name].freed[counter]);
      rows[name].limit[counter] += other[name].limit[counter];
    }
  }
}

Stat Peaks::stat(const Sums& sums, size_t row, size_t counter) const {
  const int64_t freed = row == Counters::kAll
                            ? wrapping_add(sums.rows[Counters::kSmall].freed[counter],
                                           sums.rows[Counters::kLarge].freed[counter])
                            : sums.rows[row].freed[counter];
  const int64_t current = sums.rows[row].current(counter);
  return {current, sums.rows[row].limit[counter], add_to_sum(current - base_[row][counter], freed),
          shown_sum(freed)};
}

void Peaks::write(const Sums& sums, Stats* stats) const {
  const auto array = [&](size_t counter) {
    return StatArray{stat(sums, Counters::kAll, counter), stat(sums, Counters::kSmall, counter),
                     stat(sums, Counters::kLarge, counter)};
  };
  stats->allocation = array(Counters::kCount);
  stats->allocated_bytes = array(Counters::kBytes);
  stats->requested_bytes = array(Counters::kRequested);
  stats->inactive_split = array(Counters::kSplit);
  stats->inactive_split_bytes = array(Counters::kSplitBytes);
  active_counts_.write(stats);
  stats->oversize_allocations = stat(sums, Counters::kAll, Counters::kOversize);
}

bool Peaks::is_sound() const { return shared_.is_sound(); }

// ---- Resets

void Peaks::reset_peak() {
  for (size_t name = 0; name < kRowCount; name++) {
    Counters::Row& spare = shared_.row(name);
    for (size_t counter = 0; counter < kCounters; counter++)
      spare.raise_limit(counter, -spare.headroom(counter));
  }
  active_counts_.reset_peaks();
}

// What the shards have freed is set to 0 by the caller.
void Peaks::reset_accumulated(const Sums& sums) {
  shared_.reset_accumulated();
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++)
      base_[name][counter] = sums.rows[name].current(counter);
  }
  active_counts_.reset_accumulated();
}

}  // namespace cachalot
