// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/shared_account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "alloc/stats/headroom_recall.h"

namespace cachalot {
namespace {

constexpr Counters::RowName kKind = Counters::kSmall;

Counters::Move handing_out(int64_t bytes) {
  return Counters::handing_out({bytes, bytes, 0, bytes});
}
Counters::Move freeing(int64_t bytes) { return Counters::freeing({bytes, bytes, 0, bytes}); }

int64_t headroom(Counters& counters, Counters::RowName name = Counters::kAll) {
  return counters.row(name).headroom(Counters::kBytes);
}
int64_t current(const Counters& counters) {
  return counters.rows()[Counters::kAll].current(Counters::kBytes);
}
int64_t limit(const Counters& counters) {
  return counters.rows()[Counters::kAll].limit[Counters::kBytes];
}

// With 1,000 bytes of spare headroom, in one block.
class SharedAccountTest : public testing::Test {
 protected:
  SharedAccountTest() {
    EXPECT_TRUE(shared_.counters().move(true, handing_out(1000)));
    EXPECT_TRUE(shared_.counters().move(true, freeing(1000)));
    shared_.add_own_account();
  }
  // What an account borrows besides.
  static Counters::Amounts loan(int64_t bytes) {
    Counters::Amounts amounts{};
    for (Counters::Values& row : amounts) row[Counters::kBytes] = bytes;
    return amounts;
  }

  SharedAccount shared_;
  const std::lock_guard<Lock> guard_{shared_.order()};
  Account account_;
  Counters& own_ = account_.counters;
};

TEST(SharedAccount, RaisesItsLimitsWhileItIsAlone) {
  SharedAccount shared;
  const std::lock_guard guard(shared.order());
  EXPECT_TRUE(shared.counters().move(true, handing_out(512)));
  shared.add_own_account();
  EXPECT_FALSE(shared.counters().move(true, handing_out(512)));
  shared.remove_own_account();
  EXPECT_TRUE(shared.counters().move(true, handing_out(512)));
}

TEST(SharedAccount, TellsWhetherACallMetAnotherThreadAtTheOrderLock) {
  SharedAccount shared;
  EXPECT_TRUE(shared.lock_order());
  shared.order().unlock();
  // Until the thread has tried while the lock was held.
  bool has_met_another = false;
  while (!has_met_another) {
    std::unique_lock guard(shared.order());
    std::atomic<bool> is_about_to_try{false};
    std::thread thread([&] {
      is_about_to_try = true;
      has_met_another = !shared.lock_order();
      shared.order().unlock();
    });
    while (!is_about_to_try) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    guard.unlock();
    thread.join();
  }
}

TEST_F(SharedAccountTest, GivesAShardItsOwnAccountAfterManyMovesInARow) {
  Account other;
  for (int i = 0; i < 1000; i++) {
    EXPECT_FALSE(shared_.note_use(account_, false));
    EXPECT_FALSE(shared_.note_use(other, false));
  }
  for (int i = 0; i < 64; i++) EXPECT_FALSE(shared_.note_use(account_, false)) << i;
  EXPECT_TRUE(shared_.note_use(account_, false));
  shared_.add_own_account();
  EXPECT_FALSE(shared_.note_use(account_, false)) << "the run begins anew";
}

TEST_F(SharedAccountTest, GivesAShardItsOwnAccountWhenItMeetsAnotherThread) {
  EXPECT_TRUE(shared_.note_use(account_, true));
}

TEST_F(SharedAccountTest, LendsWhatIsMissingAndTheLoan) {
  EXPECT_TRUE(shared_.lend(own_, kKind, handing_out(512), loan(100)));
  EXPECT_EQ(headroom(own_), 612);
  EXPECT_EQ(headroom(shared_.counters()), 388);
  EXPECT_EQ(limit(own_) + limit(shared_.counters()), 1000) << "the peak stays";
  EXPECT_TRUE(shared_.lend(own_, kKind, handing_out(512), loan(100)));
  EXPECT_EQ(headroom(own_), 612) << "it has enough";
}

TEST_F(SharedAccountTest, LendsLessThanTheLoanRatherThanNothing) {
  EXPECT_TRUE(shared_.lend(own_, kKind, handing_out(512), loan(4000)));
  EXPECT_EQ(headroom(own_), 1000);
  EXPECT_EQ(headroom(shared_.counters()), 0);
}

TEST_F(SharedAccountTest, LendsNothingWhereTheMoveNeedsMoreThanThereIs) {
  EXPECT_FALSE(shared_.lend(own_, kKind, handing_out(1024), loan(100)));
  EXPECT_EQ(headroom(own_), 0);
  EXPECT_EQ(headroom(shared_.counters()), 1000);
}

TEST_F(SharedAccountTest, MovesForAnAccountWithoutANewPeak) {
  EXPECT_TRUE(shared_.covers(kKind, handing_out(1000)));
  shared_.move_for(own_, kKind, handing_out(1000));
  EXPECT_EQ(current(own_), 1000);
  EXPECT_EQ(limit(own_) + limit(shared_.counters()), 1000);
  EXPECT_EQ(headroom(own_), 0);
  shared_.move_for(own_, kKind, freeing(1000));
  EXPECT_EQ(headroom(shared_.counters()), 1000) << "a free returns its headroom";
  EXPECT_EQ(own_.frees(), 1);
}

TEST_F(SharedAccountTest, RaisesThePeakByWhatExceedsTheSpareHeadroom) {
  EXPECT_FALSE(shared_.covers(kKind, handing_out(1536)));
  shared_.move_for(own_, kKind, handing_out(1536));
  EXPECT_EQ(limit(own_) + limit(shared_.counters()), 1536);
  EXPECT_EQ(headroom(shared_.counters()), 0);
}

TEST_F(SharedAccountTest, TakesOverWhatAnAccountHasCounted) {
  shared_.move_for(own_, kKind, handing_out(512));
  shared_.take_over(account_);
  EXPECT_TRUE(account_.is_shared);
  EXPECT_EQ(current(own_), 0);
  EXPECT_EQ(current(shared_.counters()), 512);
  EXPECT_EQ(limit(shared_.counters()), 1000);
}

TEST_F(SharedAccountTest, HasNoHeadroomAfterAResetOfThePeak) {
  shared_.drop_headroom();
  EXPECT_FALSE(shared_.counters().has_headroom());
  EXPECT_EQ(limit(shared_.counters()), 0);
}

// ---- Accounts of shards

TEST(Account, HasBeenIdleAfterTwoVisitsWithFewFreesBeforeEach) {
  Account account;
  EXPECT_FALSE(account.note_visit());
  EXPECT_TRUE(account.note_visit());
}

TEST(Account, IsBusyAfterSomeFreesOrAMeeting) {
  Account account;
  account.counters.set_alone(true);
  for (int visit = 0; visit < 4; visit++) {
    for (int i = 0; i < 8; i++) {
      account.counters.move(true, handing_out(512));
      account.counters.move(true, freeing(512));
    }
    EXPECT_FALSE(account.note_visit());
  }
  for (int visit = 0; visit < 4; visit++) {
    account.met_others = true;
    EXPECT_FALSE(account.note_visit());
  }
}

// ---- Recalls

TEST(HeadroomRecall, IsAnnouncedFromItsBeginToTheNextLending) {
  SlowPathFlags flags;
  HeadroomRecall recall(flags);
  EXPECT_TRUE(recall.is_lent());
  recall.begin();
  EXPECT_TRUE(recall.is_under_way());
  EXPECT_TRUE(flags.has(SlowPath::kScarce));
  EXPECT_EQ(recall.number(), 1u);
  recall.end();
  EXPECT_TRUE(recall.is_complete());
  EXPECT_TRUE(flags.has(SlowPath::kScarce));
  recall.lend_again();
  EXPECT_TRUE(recall.is_lent());
  EXPECT_TRUE(flags.none());
}

TEST(HeadroomRecall, GathersTheHeadroomOfAccountsAndKeepsThePeak) {
  SlowPathFlags flags;
  HeadroomRecall recall(flags);
  Counters spare;
  Counters accounts[2];
  for (Counters& own : accounts) {
    own.set_alone(true);
    own.move(true, handing_out(512));
    own.move(true, freeing(512));
  }
  recall.begin();
  for (Counters& own : accounts) {
    recall.gather_from(own);
    EXPECT_FALSE(own.has_headroom());
  }
  recall.move_gathered_to(spare);
  EXPECT_EQ(headroom(spare), 1024);
  EXPECT_EQ(limit(spare), 1024);
  recall.move_gathered_to(spare);
  EXPECT_EQ(headroom(spare), 1024) << "each is given once";
  recall.end();
}

}  // namespace
}  // namespace cachalot
