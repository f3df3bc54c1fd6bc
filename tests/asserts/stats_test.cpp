// SPDX-License-Identifier: MIT OR Apache-2.0
// Faults in the use of the classes that keep peaks exact are found.
#include <gtest/gtest.h>

#include <mutex>

#include "alloc/stats/headroom_recall.h"
#include "alloc/stats/peaks.h"
#include "alloc/stats/shared_account.h"
#include "alloc/stats/stats_reading.h"

namespace cachalot {
namespace {

constexpr Counters::RowName kSmallRow = Counters::kSmall;
const Counters::Move kHandOut = Counters::handing_out({512, 512, 0, 512});
const Counters::Move kFree = Counters::freeing({512, 512, 0, 512});

void give_headroom(Counters& counters) {
  counters.set_alone(true);
  counters.move(true, kHandOut);
  counters.move(true, kFree);
  counters.set_alone(false);
}

TEST(StatsDeathTest, FindsASharedAccountThatIsUsedWithoutTheOrderLock) {
  SharedAccount shared;
  Account account;
  EXPECT_DEATH(shared.note_use(account, false), "lock .account order. is not held");
  EXPECT_DEATH(shared.add_own_account(), "lock .account order. is not held");
  EXPECT_DEATH(shared.remove_own_account(), "lock .account order. is not held");
  EXPECT_DEATH(shared.take_over(account), "lock .account order. is not held");
  EXPECT_DEATH(shared.covers(kSmallRow, kHandOut), "lock .account order. is not held");
  EXPECT_DEATH(shared.lend(account.counters, kSmallRow, kHandOut, {}),
               "lock .account order. is not held");
  EXPECT_DEATH(shared.move_for(account.counters, kSmallRow, kHandOut),
               "lock .account order. is not held");
}

TEST(StatsDeathTest, FindsHeadroomThatAnAccountKeepsWhenItComesOrGoes) {
  SharedAccount shared;
  Account account;
  give_headroom(account.counters);
  EXPECT_DEATH(account.become_own(1), "has_headroom");
  const std::lock_guard guard(shared.order());
  EXPECT_DEATH(shared.take_over(account), "has_headroom");
  EXPECT_DEATH(shared.remove_own_account(), "own_accounts_ > 0");
}

TEST(StatsDeathTest, FindsARecallOutOfTurn) {
  SlowPathFlags flags;
  HeadroomRecall recall(flags);
  EXPECT_DEATH(recall.end(), "is_under_way");
  EXPECT_DEATH(recall.lend_again(), "is_complete");
  recall.begin();
  EXPECT_DEATH(recall.begin(), "!is_under_way");
  EXPECT_DEATH(recall.lend_again(), "is_complete");
}

TEST(StatsDeathTest, FindsGatheredHeadroomThatARecallLeavesBehind) {
  SlowPathFlags flags;
  HeadroomRecall recall(flags);
  Counters own;
  give_headroom(own);
  recall.begin();
  recall.gather_from(own);
  EXPECT_DEATH(recall.end(), "gathered_");
}

TEST(StatsDeathTest, FindsAReadingOutOfTurn) {
  SlowPathFlags flags;
  StatsReading reading(flags);
  EXPECT_DEATH(reading.end(), "is_under_way");
  EXPECT_DEATH(reading.shared(), "reading_ != 0");
  reading.begin();
  EXPECT_DEATH(reading.begin(), "!is_under_way");
}

TEST(StatsDeathTest, FindsRowsWithoutRoom) {
  PreservedRows preserved;
  EXPECT_DEATH(preserved.preserve({}, 1), "rows_");
}

TEST(StatsDeathTest, FindsARecallDuringAReading) {
  SlowPathFlags flags;
  Peaks peaks(flags);
  peaks.begin_reading();
  EXPECT_DEATH(peaks.begin_recall(), "!reading_.is_under_way");
}

TEST(StatsDeathTest, FindsAVisitOfAnAccountThatIsAway) {
  SlowPathFlags flags;
  Peaks peaks(flags);
  Account account;
  peaks.open(account, false);
  peaks.leave(account);
  peaks.begin_recall();
  EXPECT_DEATH(peaks.visit(account, true), "!account.away");
}

TEST(StatsDeathTest, FindsWhatNeedsTheWholeDevice) {
  SlowPathFlags flags;
  Peaks peaks(flags);
  EXPECT_DEATH(peaks.reset_peak(), "kWholeDevice");
  EXPECT_DEATH(peaks.reset_accumulated({}), "kWholeDevice");
  EXPECT_DEATH(peaks.begin_waiting({}), "kWholeDevice");
  peaks.begin_recall();
  peaks.end_recall();
  EXPECT_DEATH(peaks.lend_again(), "kWholeDevice");
  flags.add(SlowPath::kHeld);
  EXPECT_DEATH(peaks.begin_reading(), "kWholeDevice");
}

}  // namespace
}  // namespace cachalot
