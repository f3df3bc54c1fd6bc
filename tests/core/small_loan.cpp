// SPDX-License-Identifier: MIT OR Apache-2.0
// Linked into a program, this gives each shard an account of its own and lends it next to no headroom, so
// that nearly each of its calls borrows or recalls headroom.
#include "alloc/stats/peaks.h"

namespace {

struct SmallLoan {
  SmallLoan() {
    cachalot::HeadroomLender::largest_loan = CACHALOT_LOAN;
    cachalot::Peaks::shares_account = false;
  }
};

const SmallLoan small_loan;

}  // namespace
