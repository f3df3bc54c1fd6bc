// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/shared_account.h"

#include <algorithm>

#include "base/sums.h"

namespace cachalot {

void SharedAccount::add_own_account() {
  order_.assert_held();
  own_accounts_++;
  counters_.set_alone(false);
  // The run led to the account that comes now; the next shard starts anew.
  run_ = 0;
}

void SharedAccount::remove_own_account() {
  order_.assert_held();
  CACHALOT_ASSERT(1, own_accounts_ > 0);
  own_accounts_--;
  counters_.set_alone(own_accounts_ == 0);
}

// What the account has counted stays in the sums, so no statistic changes.
void SharedAccount::take_over(Account& account) {
  order_.assert_held();
  counters_.take_over(account.counters);
  account.is_shared = true;
}

// One branch for all counters, as in Counters::move().
bool SharedAccount::covers(Counters::RowName kind, const Counters::Move& move) {
  order_.assert_held();
  int64_t signs = 0;
  for (const size_t name : {size_t{kind}, size_t{Counters::kAll}}) {
    for (size_t counter = 0; counter < Counters::kCounters; counter++)
      signs |= counters_.row(name).headroom(counter) - move.by[counter];
  }
  return signs >= 0;
}

bool SharedAccount::lend(Counters& own, Counters::RowName kind, const Counters::Move& move,
                         const Counters::Amounts& loan) {
  order_.assert_held();
  // Looks at all counters first, so that a refusal changes nothing.
  for (const size_t name : {size_t{kind}, size_t{Counters::kAll}}) {
    const Counters::Row& row = own.row(name);
    for (size_t counter = 0; counter < Counters::kCounters; counter++) {
      if (move.by[counter] - row.headroom(counter) > counters_.row(name).headroom(counter))
        return false;
    }
  }
  for (size_t name = 0; name < Counters::kRowCount; name++) {
    const bool moves = name == kind || name == Counters::kAll;
    Counters::Row& row = own.row(name);
    Counters::Row& spare = counters_.row(name);
    for (size_t counter = 0; counter < Counters::kCounters; counter++) {
      const int64_t by = moves ? move.by[counter] : 0;
      const int64_t missing = by + loan[name][counter] - row.headroom(counter);
      // Limits move from one account to the other, so their sum, the peak, stays.
      const int64_t taken = std::clamp<int64_t>(missing, 0, spare.headroom(counter));
      spare.raise_limit(counter, -taken);
      row.raise_limit(counter, taken);
    }
  }
  return true;
}

void SharedAccount::move_for(Counters& own, Counters::RowName kind, const Counters::Move& move) {
  order_.assert_held();
  CACHALOT_ASSERT(2, !own.has_headroom());
  for (const size_t name : {size_t{kind}, size_t{Counters::kAll}}) {
    Counters::Row& spare = counters_.row(name);
    Counters::Row& row = own.row(name);
    for (size_t counter = 0; counter < Counters::kCounters; counter++) {
      const int64_t by = move.by[counter];
      // A negative move gives its limit to the spare headroom: the peak stays while the current
      // value falls.
      spare.raise_limit(counter, -std::min(by, spare.headroom(counter)));
      row.limit[counter] += by;
      // The row of all has no sums of frees of its own: they are those of the two kinds.
      if (name != Counters::kAll)
        row.freed[counter] = wrapping_add(row.freed[counter], -std::min<int64_t>(by, 0));
    }
  }
}

// The sums of the limits fall to what is counted: that is how a peak is reset.
void SharedAccount::drop_headroom() {
  Counters::Amounts dropped{};
  counters_.move_headroom_to(&dropped);
}

}  // namespace cachalot
