// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/headroom_lender.h"

#include <gtest/gtest.h>

#include <vector>

namespace cachalot {
namespace {

Counters::Rows spare_of(int64_t bytes) {
  Counters::Rows spare;
  spare[Counters::kAll].raise_limit(Counters::kBytes, bytes);
  return spare;
}

class HeadroomLending : public testing::Test {
 protected:
  // So many accounts ask in this period. What each borrows in the next one.
  int64_t loan_after(size_t borrowers, int64_t spare_bytes = 3000) {
    if (borrowed_in_.size() < borrowers) borrowed_in_.resize(borrowers);
    for (size_t i = 0; i < borrowers; i++) {
      lender_.note_borrower(borrowed_in_[i]);
      lender_.note_borrower(borrowed_in_[i]);
    }
    lender_.begin_period(spare_of(spare_bytes));
    return lender_.loan()[Counters::kAll][Counters::kBytes];
  }

  HeadroomLender lender_;
  std::vector<uint64_t> borrowed_in_;
};

TEST_F(HeadroomLending, GivesNothingBeforeThereIsSomething) {
  EXPECT_EQ(lender_.loan(), Counters::Amounts{});
}

TEST_F(HeadroomLending, KeepsAThirdForAccountsThatComeUnexpected) {
  EXPECT_EQ(loan_after(1), 2000);
  EXPECT_EQ(lender_.loan()[Counters::kSmall][Counters::kBytes], 0);
}

TEST_F(HeadroomLending, DividesAmongTheAccountsThatAskedOnceEach) { EXPECT_EQ(loan_after(4), 500); }

TEST_F(HeadroomLending, ForgetsAccountsThatStayAwaySlowly) {
  EXPECT_EQ(loan_after(4), 500);
  EXPECT_EQ(loan_after(1), 2000 / 3);
  EXPECT_EQ(loan_after(1), 2000 / 2);
  EXPECT_EQ(loan_after(0), 2000 / 1);
  EXPECT_EQ(loan_after(0), 2000 / 1);
}

TEST_F(HeadroomLending, HasALimitThatTestsSet) {
  HeadroomLender::largest_loan = 1;
  EXPECT_EQ(loan_after(1), 1);
  HeadroomLender::largest_loan = INT64_MAX;
}

TEST_F(HeadroomLending, BeginsAfterOneMoveWithoutANewPeak) {
  lender_.begin_wait();
  EXPECT_TRUE(lender_.note_move(false));
}

TEST_F(HeadroomLending, WaitsAfterANewPeakForTwoCalmMovesABorrower) {
  for (uint64_t account = 0; account < 3; account++) {
    uint64_t borrowed_in = 0;
    lender_.note_borrower(borrowed_in);
  }
  lender_.begin_wait();
  EXPECT_FALSE(lender_.note_move(true));
  for (int move = 1; move < 6; move++) EXPECT_FALSE(lender_.note_move(false)) << move;
  EXPECT_FALSE(lender_.note_move(true)) << "it has to be calm again from the beginning";
  for (int move = 1; move < 6; move++) EXPECT_FALSE(lender_.note_move(false)) << move;
  EXPECT_TRUE(lender_.note_move(false));
}

}  // namespace
}  // namespace cachalot
