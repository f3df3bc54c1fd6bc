// SPDX-License-Identifier: MIT OR Apache-2.0
// How much headroom an account borrows at a time, and when recalled headroom is lent again.
//
// Note [Lending]
// Rationale: an account that borrows little soon asks again. An account that borrows much leaves
// too little for the others, and a recall visits all accounts. At the peak each move needs a recall
// of the headroom that was lent before.
// Approach: a period is the time from one lending to the next. The lender counts the accounts that
// ask in a period, and expects about as many in the next one. It divides two thirds of the spare
// headroom among them; the rest is for those that come unexpected. After a recall it waits until
// moves have been calm: twice as many of them without a new peak as accounts have asked.
#pragma once

#include <cstdint>

#include "alloc/stats/counters.h"

namespace cachalot {

// The order lock guards it.
class HeadroomLender {
 public:
  // The most that an account borrows at a time. Tests set a lower one, so that accounts ask more
  // often.
  inline static int64_t largest_loan = INT64_MAX;

  // An account asks. borrowed_in: the period in which it last did.
  void note_borrower(uint64_t& borrowed_in) {
    if (borrowed_in == period_) return;
    borrowed_in = period_;
    borrowers_++;
  }
  // A recall is complete. The first move without a new peak ends the wait.
  void begin_wait() {
    calm_moves_ = 0;
    patience_ = 1;
  }
  // A move has taken place since. True: it is time to lend the headroom again.
  bool note_move(bool is_new_peak);
  // spare: the headroom that there is to lend.
  void begin_period(const Counters::Rows& spare);
  // The headroom that an account borrows at a time in this period.
  const Counters::Amounts& loan() const { return loan_; }

 private:
  uint64_t period_ = 1;
  int64_t borrowers_ = 0;           // accounts that asked in it
  int64_t expected_borrowers_ = 1;  // by the one before
  int64_t calm_moves_ = 0;          // since the last new peak
  int64_t patience_ = 1;            // so many of them end the wait
  Counters::Amounts loan_{};
};

}  // namespace cachalot
