// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/headroom_lender.h"

#include <algorithm>

namespace cachalot {

// A new peak means that the program still grows: what is lent now would be recalled at the next
// move.
bool HeadroomLender::note_move(bool is_new_peak) {
  if (!is_new_peak) return ++calm_moves_ >= patience_;
  // More borrowers take longer to ask again, and lending too early costs a recall.
  calm_moves_ = 0;
  patience_ = 2 * borrowers_;
  return false;
}

void HeadroomLender::begin_period(const Counters::Rows& spare) {
  // Slowly down: a period is often too short for all to show up.
  expected_borrowers_ =
      std::max<int64_t>({borrowers_, expected_borrowers_ - 1 - expected_borrowers_ / 16, 1});
  borrowers_ = 0;
  period_++;
  for (size_t name = 0; name < Counters::kRowCount; name++) {
    for (size_t counter = 0; counter < Counters::kCounters; counter++) {
      // Two thirds, see Note [Lending]. The product does not run over: headroom is in bytes of one
      // device.
      const int64_t part = spare[name].headroom(counter) * 2 / (3 * expected_borrowers_);
      loan_[name][counter] = std::min(part, largest_loan);
    }
  }
}

}  // namespace cachalot
