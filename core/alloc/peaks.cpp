// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/peaks.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace cachalot {
namespace {

using Guard = std::lock_guard<Lock>;

}  // namespace

// ---- Moving

bool Peaks::move(Account& account, bool is_small, const Counters::Move& move) {
  if (account.counters.is_alone()) return account.counters.move(is_small, move);
  const Counters::RowName kind = Counters::kind_of(is_small);
  const Guard guard(order_);
  see_to_picture(account);
  note_activity(account);
  return scarce_ ? move_exactly(account, kind, move) : refill_and_move(account, kind, move);
}

// See Note [Pictures]. pre (here and below): order_; the call has changed nothing at the shard.
void Peaks::see_to_picture(Account& account) {
  if (!duties_.has(kReading)) [[likely]]
    return;
  picture(account, reading_);
  keep_reserve();
}

void Peaks::keep_reserve() {
  if (reserve_kept_for_ == reading_) return;
  reserve_kept_for_ = reading_;
  kept_reserve_ = reserve_;
}

void Peaks::note_activity(Account& account) {
  if (account.active == period_) return;
  account.active = period_;
  active_++;
}

void Peaks::take_slack(Account& account, Reserve* to) {
  for (size_t name = 0; name < kRowCount; name++) {
    Counters::Row& row = account.counters.row(name);
    for (size_t counter = 0; counter < kCounters; counter++) {
      (*to)[name][counter] += row.head[counter];
      row.limit[counter] -= row.head[counter];
      row.head[counter] = 0;
    }
  }
}

void Peaks::give_slack_back(Account& account) {
  take_slack(account, &reserve_);
  account.joined = collection_;
}

bool Peaks::move_exactly(Account& account, Counters::RowName kind, const Counters::Move& move) {
  if (account.joined != collection_) give_slack_back(account);
  auto& kind_reserve = reserve_[kind];
  auto& all_reserve = reserve_[Counters::kAll];
  int64_t signs = 0;
  for (size_t counter = 0; counter < kCounters; counter++) {
    signs |= (kind_reserve[counter] - move.by[counter]) | (all_reserve[counter] - move.by[counter]);
  }
  if (signs < 0 && !collected_) return false;
  Counters::Row& row = account.counters.row(kind);
  Counters::Row& all = account.counters.row(Counters::kAll);
  for (size_t counter = 0; counter < kCounters; counter++) {
    const int64_t by = move.by[counter];
    kind_reserve[counter] = std::max<int64_t>(kind_reserve[counter] - by, 0);
    all_reserve[counter] = std::max<int64_t>(all_reserve[counter] - by, 0);
    row.limit[counter] += by;
    all.limit[counter] += by;
    row.freed[counter] -= std::min<int64_t>(by, 0);
  }
  if (collected_) settle_down(signs < 0);
  return true;
}

void Peaks::settle_down(bool is_new_peak) {
  if (is_new_peak) {
    calm_ = 0;
    patience_ = 2 * active_;
  } else if (++calm_ >= patience_ && !duties_.has(kWholeDevice)) {
    lend();
    duties_.drop(kScarce);
  }
}

bool Peaks::refill_and_move(Account& account, Counters::RowName kind, const Counters::Move& move) {
  for (const size_t name : {size_t{kind}, size_t{Counters::kAll}}) {
    const Counters::Row& row = account.counters.row(name);
    for (size_t counter = 0; counter < kCounters; counter++) {
      if (move.by[counter] - row.head[counter] > reserve_[name][counter]) return false;
    }
  }
  for (size_t name = 0; name < kRowCount; name++) {
    const bool moves = name == kind || name == Counters::kAll;
    Counters::Row& row = account.counters.row(name);
    for (size_t counter = 0; counter < kCounters; counter++) {
      const int64_t by = moves ? move.by[counter] : 0;
      const int64_t missing = by + share_[name][counter] - row.head[counter];
      const int64_t taken = std::clamp<int64_t>(missing, 0, reserve_[name][counter]);
      reserve_[name][counter] -= taken;
      row.limit[counter] += taken;
      row.head[counter] += taken;
    }
  }
  return account.counters.move(kind == Counters::kSmall, move);
}

// ---- Collecting

bool Peaks::is_collected() {
  const Guard guard(order_);
  return collected_;
}

void Peaks::begin_collection() {
  const Guard guard(order_);
  scarce_ = true;
  collected_ = false;
  collection_++;
}

void Peaks::visit(Account& account) {
  if (account.counters.is_alone() || has_joined(account)) return;
  take_slack(account, &gathered_);
  account.joined = collection_;
}

void Peaks::end_collection() {
  const Guard guard(order_);
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++)
      reserve_[name][counter] += std::exchange(gathered_[name][counter], 0);
  }
  collected_ = true;
  calm_ = 0;
  patience_ = 1;
}

// pre: collected.
void Peaks::lend() {
  scarce_ = collected_ = false;
  // Slowly down: a period is often too short for all to show up.
  expected_active_ = std::max<int64_t>({active_, expected_active_ - 1 - expected_active_ / 16, 1});
  active_ = 0;
  period_++;
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++)
      share_[name][counter] =
          std::min(reserve_[name][counter] * 2 / (3 * expected_active_), largest_share);
  }
}

void Peaks::lend_again() {
  const Guard guard(order_);
  lend();
}

void Peaks::enter(Account& account) {
  const Guard guard(order_);
  give_slack_back(account);
}

void Peaks::leave(Account& account) {
  if (account.counters.is_alone()) return;
  enter(account);
  account.away.store(true);
}

// It had nothing to give while it was away.
void Peaks::come_back(Account& account) {
  if (account.counters.is_alone()) return;
  account.away.store(false);
  enter(account);
}

// ---- Reading

void Peaks::begin_reading() {
  reading_++;
  duties_.add(kReading);
}

void Peaks::picture(Account& account, uint64_t reading) {
  if (account.pictured == reading) return;
  account.pictured = reading;
  account.picture = account.counters.rows();
}

void Peaks::end_reading() {
  {
    const Guard guard(order_);
    keep_reserve();
  }
  duties_.drop(kReading);
}

void Peaks::Sums::add(const Counters::Rows& other) {
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++) {
      rows[name].head[counter] += other[name].head[counter];
      rows[name].freed[counter] += other[name].freed[counter];
      rows[name].limit[counter] += other[name].limit[counter];
    }
  }
}

Stat Peaks::stat(const Sums& sums, const Reserve& reserve, size_t row, size_t counter) const {
  const int64_t freed = row == Counters::kAll ? sums.rows[Counters::kSmall].freed[counter] +
                                                    sums.rows[Counters::kLarge].freed[counter]
                                              : sums.rows[row].freed[counter];
  const int64_t current = sums.rows[row].current(counter);
  return {current, reserve[row][counter] + sums.rows[row].limit[counter],
          current - base_[row][counter] + freed, freed};
}

void Peaks::write(const Sums& shards, bool from_picture, Stats* stats) const {
  const Reserve& reserve = from_picture ? kept_reserve_ : reserve_;
  const auto array = [&](size_t counter) {
    return StatArray{stat(shards, reserve, Counters::kAll, counter),
                     stat(shards, reserve, Counters::kSmall, counter),
                     stat(shards, reserve, Counters::kLarge, counter)};
  };
  stats->allocation = array(Counters::kCount);
  stats->allocated_bytes = array(Counters::kBytes);
  stats->requested_bytes = array(Counters::kRequested);
  stats->inactive_split = array(Counters::kSplit);
  stats->inactive_split_bytes = array(Counters::kSplitBytes);
  stats->active = array(Counters::kActive);
  stats->active_bytes = array(Counters::kActiveBytes);
  stats->oversize_allocations = stat(shards, reserve, Counters::kAll, Counters::kOversize);
}

bool Peaks::is_sound() const {
  return std::all_of(reserve_.begin(), reserve_.end(), [](const auto& row) {
    return std::all_of(row.begin(), row.end(), [](int64_t bytes) { return bytes >= 0; });
  });
}

// ---- Resets

void Peaks::reset_peak() { reserve_ = {}; }

// What the shards have freed is set to 0 by the caller.
void Peaks::reset_accumulated(const Sums& shards) {
  for (size_t name = 0; name < kRowCount; name++) {
    for (size_t counter = 0; counter < kCounters; counter++)
      base_[name][counter] = shards.rows[name].current(counter);
  }
}

}  // namespace cachalot
