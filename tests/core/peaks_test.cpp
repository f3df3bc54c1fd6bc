// SPDX-License-Identifier: MIT OR Apache-2.0
// What shards count, added up, against the plain arithmetic of stats.h.
#include "alloc/stats/peaks.h"

#include <gtest/gtest.h>

#include <deque>
#include <tuple>
#include <vector>

#include "../test_seed.h"
#include "base/units.h"

namespace cachalot {
namespace {

// Every statistic is moved by itself.
class PlainCounters {
 public:
  void hand_out(bool is_small, const Counters::Change& change) {
    stats.allocation.increase(is_small, 1);
    stats.allocated_bytes.increase(is_small, change.bytes);
    stats.active.increase(is_small, 1);
    stats.active_bytes.increase(is_small, change.bytes);
    stats.requested_bytes.increase(is_small, change.requested);
    if (change.oversize != 0) stats.oversize_allocations.increase(1);
    move_split(is_small, change.split, change.split_bytes());
  }
  void give_back(bool is_small, const Counters::Change& change) {
    stats.allocation.decrease(is_small, 1);
    stats.allocated_bytes.decrease(is_small, change.bytes);
    if (change.oversize != 0) stats.oversize_allocations.decrease(1);
  }
  void complete(bool is_small, const Counters::Change& change) {
    stats.active.decrease(is_small, 1);
    stats.active_bytes.decrease(is_small, change.bytes);
    stats.requested_bytes.decrease(is_small, change.requested);
    move_split(is_small, change.split, -change.split_bytes());
  }
  template <typename Reset>
  void for_each(Reset reset) {
    for (StatArray* array :
         {&stats.allocation, &stats.allocated_bytes, &stats.active, &stats.active_bytes,
          &stats.requested_bytes, &stats.inactive_split, &stats.inactive_split_bytes}) {
      array->for_each(reset);
    }
    reset(stats.oversize_allocations);
  }

  Stats stats;

 private:
  static void move(StatArray& array, bool is_small, int64_t n) {
    if (n > 0) array.increase(is_small, n);
    if (n < 0) array.decrease(is_small, -n);
  }
  void move_split(bool is_small, int64_t blocks, int64_t bytes) {
    move(stats.inactive_split, is_small, blocks);
    move(stats.inactive_split_bytes, is_small, bytes);
  }
};

// Blocks that are handed out and freed by shards at random, told to both.
class PeaksRun {
 public:
  PeaksRun(uint64_t seed, int shards) : random_(seed), accounts_(static_cast<size_t>(shards)) {
    for (Account& account : accounts_) peaks_.open(account, shards == 1);
  }

  void step() {
    switch (random_.below(64)) {
      case 0:
        return reset_peak();
      case 1:
        return reset_accumulated();
      case 2:
        return recall();
      default:
        break;
    }
    // More blocks stop waiting than begin to, so that often none waits.
    switch (random_.below(9)) {
      case 0:
        return give_back();
      case 1:
      case 2:
        return complete();
      case 3:
      case 4:
        return free();
      default:
        // In a long run up nothing is freed.
        return hand_out();
    }
  }

  void expect_equal() {
    expect_equal(sums(false));
    ASSERT_TRUE(peaks_.is_sound());
    for (const Account& account : accounts_) ASSERT_TRUE(account.counters.is_sound());
    // A device that is used as a whole is not read in this way.
    if (HasFatalFailure() || flags_.has(SlowPath::kWholeDevice)) return;
    for (Account& account : accounts_) account.preserved.prepare();
    peaks_.begin_reading();
    for (Account& account : accounts_) Peaks::preserve(account, peaks_.reading_number());
    peaks_.end_reading();
    expect_equal(sums(true));
  }

  uint64_t recalls() const { return recalls_; }

 private:
  struct LiveBlock {
    size_t shard;
    bool is_small;
    int64_t bytes;
    int64_t requested;
    int64_t oversize;
  };

  static bool HasFatalFailure() { return testing::Test::HasFatalFailure(); }

  Peaks::Sums sums(bool of_reading) const {
    Peaks::Sums sums{};
    sums.add(of_reading ? peaks_.preserved_shared() : peaks_.shared());
    for (const Account& account : accounts_)
      sums.add(of_reading ? account.preserved.rows() : account.counters.rows());
    return sums;
  }

  void expect_equal(const Peaks::Sums& sums) {
    Stats actual;
    peaks_.write(sums, &actual);
    for (const StatName& row : stat_names(true)) {
      ASSERT_EQ(stat_value(actual, row), stat_value(plain_.stats, row)) << row.name;
    }
  }

  int64_t up_to(int64_t last) {
    return static_cast<int64_t>(random_.below(static_cast<uint64_t>(last) + 1));
  }
  // Split blocks and their bytes never fall below 0.
  Counters::Change change_of_hand_out(const LiveBlock& block) {
    const auto current = [&](const StatArray& stat) {
      return (block.is_small ? stat.small_pool : stat.large_pool).current;
    };
    const bool can_be_piece = current(plain_.stats.inactive_split) > 0 &&
                              current(plain_.stats.inactive_split_bytes) >= block.bytes;
    switch (random_.below(4)) {
      case 0: {  // a whole segment
        const int64_t rest = up_to(1) * (1 + up_to(static_cast<int64_t>(MiB)));
        return change_of(block, rest != 0 ? 1 : 0, block.bytes + rest);
      }
      case 1:  // of an expandable segment
        return change_of(block, 0, block.bytes);
      default:
        return can_be_piece ? change_of(block, -up_to(1), 0) : change_of(block, 0, block.bytes);
    }
  }
  Counters::Change change_of_free(const LiveBlock& block) {
    const auto current = [&](const StatArray& stat) {
      return (block.is_small ? stat.small_pool : stat.large_pool).current;
    };
    const int64_t merged = up_to(std::min<int64_t>(current(plain_.stats.inactive_split), 2));
    switch (random_.below(4)) {
      case 0: {
        const int64_t gained = up_to(current(plain_.stats.inactive_split_bytes));
        return change_of(block, -merged, block.bytes + gained);
      }
      case 1:
        return change_of(block, 0, block.bytes);
      default:
        return change_of(block, 1 - merged, 0);
    }
  }
  static Counters::Change change_of(const LiveBlock& block, int64_t split, int64_t occupied) {
    return {block.bytes, block.requested, split, occupied, block.oversize};
  }
  // The quick form, where there is one.
  static bool hand_out_quickly(Counters& counters, bool is_small, const Counters::Change& change) {
    Counters::Row& kind = counters.row(Counters::kind_of(is_small));
    if (change.occupied == 0)
      return counters.hand_out_piece(kind, change.bytes, change.requested, change.split == 0);
    if (change.split == 0 && change.occupied == change.bytes)
      return counters.hand_out_expandable(kind, change.bytes, change.requested);
    return counters.hand_out_whole(kind, change.bytes, change.requested, change.occupied);
  }
  static bool free_quickly(Counters& counters, bool is_small, const Counters::Change& change) {
    Counters::Row& kind = counters.row(Counters::kind_of(is_small));
    if (change.occupied == 0)
      return counters.free_piece(kind, change.bytes, change.requested, 1 - change.split);
    if (change.split != 0 || change.occupied != change.bytes) {
      counters.free_whole(kind, change.bytes, change.requested, -change.split, change.occupied);
    } else {
      counters.free_expandable(kind, change.bytes, change.requested);
    }
    return true;
  }
  // While a block waits each move goes where all are counted.
  bool is_hit(const LiveBlock& block) {
    return block.oversize == 0 && waiting_.empty() && !flags_.has(SlowPath::kScarce) &&
           random_.one_in(2);
  }
  LiveBlock take(std::vector<LiveBlock>* from) {
    std::swap(random_.pick(*from), from->back());
    const LiveBlock block = from->back();
    from->pop_back();
    return block;
  }

  // As a call does: by itself, with help, after a recall.
  void move(const LiveBlock& block, const Counters::Move& move) {
    Account& account = accounts_[block.shard];
    for (int attempts = 0;; attempts++) {
      ASSERT_LT(attempts, 2) << "refused though all headroom is recalled";
      const bool is_quick = !account.is_shared && waiting_.empty() && move.waiting == 0 &&
                            !(flags_.has(SlowPath::kScarce) && peaks_.has_joined(account));
      if (is_quick && account.counters.move(block.is_small, move)) return;
      if (peaks_.move(account, block.is_small, move)) return;
      recall();
    }
  }
  void recall() {
    recalls_++;
    peaks_.begin_recall();
    for (Account& account : accounts_) peaks_.visit(account, true);
    peaks_.end_recall();
  }

  void hand_out() {
    const int64_t requested = 1 + up_to(static_cast<int64_t>(MiB));
    const LiveBlock block{random_.below(accounts_.size()), random_.one_in(2),
                          requested + up_to(511), requested, random_.one_in(8) ? 1 : 0};
    const Counters::Change change = change_of_hand_out(block);
    Account& account = accounts_[block.shard];
    const bool is_done =
        is_hit(block) &&
        (account.is_shared
             ? peaks_.count_shared(account, block.is_small,
                                   [&](Counters& counters, Counters::Row&) {
                                     return hand_out_quickly(counters, block.is_small, change);
                                   })
             : hand_out_quickly(account.counters, block.is_small, change));
    if (!is_done) move(block, Counters::handing_out(change));
    plain_.hand_out(block.is_small, change);
    live_.push_back(block);
  }
  void give_back() {
    if (live_.empty()) return;
    const LiveBlock block = take(&live_);
    const Counters::Change change = change_of(block, 0, 0);
    flags_.add(SlowPath::kPendingFrees);
    if (!peaks_.has_waiting()) peaks_.begin_waiting(sums(false));
    move(block, Counters::requesting_free(change));
    plain_.give_back(block.is_small, change);
    waiting_.push_back(block);
  }
  void complete() {
    if (waiting_.empty()) return;
    const LiveBlock block = take(&waiting_);
    const Counters::Change change = change_of_free(block);
    move(block, Counters::completing_free(change));
    plain_.complete(block.is_small, change);
    if (waiting_.empty()) flags_.drop(SlowPath::kPendingFrees);
  }
  void free() {
    if (live_.empty()) return;
    const LiveBlock block = take(&live_);
    const Counters::Change change = change_of_free(block);
    Account& account = accounts_[block.shard];
    const bool is_done =
        is_hit(block) &&
        (account.is_shared
             ? peaks_.count_shared(account, block.is_small,
                                   [&](Counters& counters, Counters::Row&) {
                                     return free_quickly(counters, block.is_small, change);
                                   })
             : free_quickly(account.counters, block.is_small, change));
    if (!is_done) move(block, Counters::freeing(change));
    plain_.give_back(block.is_small, change);
    plain_.complete(block.is_small, change);
  }
  // As calls that have the whole device.
  void reset_peak() {
    stop();
    for (Account& account : accounts_) peaks_.return_headroom(account);
    peaks_.reset_peak();
    go_on();
    plain_.for_each([](Stat& stat) { stat.reset_peak(); });
  }
  void reset_accumulated() {
    stop();
    for (Account& account : accounts_) account.counters.reset_accumulated();
    peaks_.reset_accumulated(sums(false));
    go_on();
    plain_.for_each([](Stat& stat) { stat.reset_accumulated(); });
  }
  void stop() {
    recall();
    flags_.add(SlowPath::kHeld);
  }
  void go_on() {
    peaks_.lend_again();
    flags_.drop(SlowPath::kHeld);
  }

  Random random_;
  SlowPathFlags flags_;
  Peaks peaks_{flags_};
  std::deque<Account> accounts_;
  PlainCounters plain_;
  uint64_t recalls_ = 0;
  std::vector<LiveBlock> live_;
  std::vector<LiveBlock> waiting_;
};

// Of so many shards, which are lent so much at a time, and share an account or not.
class PeaksOf : public testing::TestWithParam<std::tuple<int, int64_t, bool>> {
 protected:
  PeaksOf() {
    HeadroomLender::largest_loan = std::get<1>(GetParam());
    Peaks::shares_account = std::get<2>(GetParam());
  }
  ~PeaksOf() override {
    HeadroomLender::largest_loan = INT64_MAX;
    Peaks::shares_account = true;
  }
};

TEST_P(PeaksOf, ShardsAreThoseOfPlainArithmeticInAnyOrderOfCalls) {
  const uint64_t seed = test_seed();
  for (uint64_t run = 0; run < 20; run++) {
    PeaksRun calls(seed * 1000 + run, std::get<0>(GetParam()));
    for (int step = 0; step < 1000; step++) {
      calls.step();
      calls.expect_equal();
      if (HasFatalFailure()) FAIL() << "run " << run << ", step " << step;
    }
    EXPECT_GT(calls.recalls(), 10u);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, PeaksOf,
                         testing::Combine(testing::Values(1, 2, 3, 16),
                                          testing::Values(0, 1, INT64_MAX), testing::Bool()));

// Accounts of so many shards, whose calls are made by this thread.
class AccountsOf {
 public:
  explicit AccountsOf(size_t count) : accounts_(count) {
    for (Account& account : accounts_) peaks_.open(account, false);
  }
  Account& at(size_t shard) { return accounts_[shard]; }
  void hand_out(size_t shard, int64_t bytes = 512) {
    move(shard, Counters::handing_out({bytes, bytes, 0, bytes}));
  }
  void give_back(size_t shard) { move(shard, kGiveBack); }
  void pair(size_t shard) {
    hand_out(shard);
    give_back(shard);
  }
  // As a call that the shard's own account refused.
  void give_back_at_the_order_lock(size_t shard) {
    ASSERT_TRUE(peaks_.move(accounts_[shard], true, kGiveBack));
  }
  void begin_recall() {
    peaks_.begin_recall();
    recalls_++;
  }
  void visit(size_t shard) { peaks_.visit(accounts_[shard], true); }
  void end_recall() { peaks_.end_recall(); }
  void recall() {
    begin_recall();
    for (size_t shard = 0; shard < accounts_.size(); shard++) visit(shard);
    end_recall();
  }
  // As a call that holds the whole device.
  void stop() {
    recall();
    flags_.add(SlowPath::kHeld);
  }
  void go_on() {
    peaks_.lend_again();
    flags_.drop(SlowPath::kHeld);
  }
  void lend_again() {
    if (!peaks_.is_recalled()) return;
    flags_.add(SlowPath::kHeld);
    go_on();
  }
  bool is_recalled() { return peaks_.is_recalled(); }
  uint64_t recalls() const { return recalls_; }
  Stat bytes() const {
    Peaks::Sums sums{};
    sums.add(peaks_.shared());
    for (const Account& account : accounts_) sums.add(account.counters.rows());
    Stats stats;
    peaks_.write(sums, &stats);
    return stats.allocated_bytes.all;
  }

 private:
  inline static const Counters::Move kGiveBack = Counters::freeing({512, 512, 0, 512});

  void move(size_t shard, const Counters::Move& move) {
    Account& account = accounts_[shard];
    const bool is_quick =
        !account.is_shared && !(flags_.has(SlowPath::kScarce) && peaks_.has_joined(account));
    if (is_quick && account.counters.move(true, move)) return;
    while (!peaks_.move(account, true, move)) recall();
  }

  SlowPathFlags flags_;
  Peaks peaks_{flags_};
  std::deque<Account> accounts_;
  uint64_t recalls_ = 0;
};

TEST(Accounts, AreNeverRecalledForAThreadThatGoesFromShardToShardAtThePeak) {
  AccountsOf accounts(64);
  for (size_t turn = 0; turn < 1000; turn++) {
    for (size_t shard = 0; shard < 64; shard++) accounts.pair(shard);
  }
  EXPECT_EQ(accounts.recalls(), 0u);
}

TEST(Accounts, AreAShardsOwnAfterManyMovesInARow) {
  AccountsOf accounts(2);
  for (int i = 0; i < 100; i++) accounts.pair(0);
  EXPECT_FALSE(accounts.at(0).is_shared);
  EXPECT_TRUE(accounts.at(1).is_shared);
}

TEST(Accounts, AreSharedAgainAfterRecallsOfIdleShards) {
  AccountsOf accounts(3);
  for (const size_t shard : {0, 1}) {
    for (int i = 0; i < 100; i++) accounts.pair(shard);
  }
  accounts.recall();
  for (int recall = 0; recall < 4; recall++) {
    for (int i = 0; i < 100; i++) accounts.pair(0);
    accounts.recall();
  }
  EXPECT_FALSE(accounts.at(0).is_shared) << "it is busy";
  EXPECT_TRUE(accounts.at(1).is_shared);
}

TEST(Accounts, CostAThreadThatGoesFromShardToShardFewRecallsAfterBusyTimes) {
  AccountsOf accounts(64);
  for (size_t shard = 0; shard < 64; shard++) {
    for (int i = 0; i < 100; i++) accounts.pair(shard);
  }
  const uint64_t before = accounts.recalls();
  for (size_t turn = 0; turn < 1000; turn++) {
    for (size_t shard = 0; shard < 64; shard++) accounts.pair(shard);
  }
  EXPECT_LE(accounts.recalls() - before, 10u);
}

TEST(Accounts, ThatNoShardOwnsAnyMoreHaveGivenTheirHeadroomBackBeforeThePeakIsRaised) {
  AccountsOf accounts(2);
  for (int i = 0; i < 100; i++) accounts.pair(0);
  for (int i = 0; i < 10; i++) accounts.hand_out(0);
  for (int i = 0; i < 10; i++) accounts.give_back(0);
  while (!accounts.at(0).is_shared) {
    accounts.lend_again();
    accounts.pair(0);
    accounts.begin_recall();
    accounts.visit(0);
    if (accounts.at(0).is_shared) break;
    accounts.visit(1);
    accounts.end_recall();
  }
  for (int i = 0; i < 10; i++) accounts.hand_out(1);
  accounts.visit(1);
  accounts.end_recall();
  EXPECT_EQ(accounts.bytes().current, 10 * 512);
  EXPECT_EQ(accounts.bytes().peak, 10 * 512);
}

// A call joins a recall when it comes to the order lock. The next call at its shard is no hit then.
TEST(Accounts, OfShardsThatJoinARecallBeforeTheirVisitKeepNoHeadroom) {
  AccountsOf accounts(2);
  for (int i = 0; i < 100; i++) accounts.pair(0);
  for (int i = 0; i < 10; i++) accounts.hand_out(0);
  accounts.lend_again();
  accounts.give_back(0);
  accounts.begin_recall();
  accounts.give_back_at_the_order_lock(0);
  for (int i = 0; i < 4; i++) accounts.give_back(0);
  for (const size_t shard : {0, 1}) accounts.visit(shard);
  accounts.end_recall();
  accounts.hand_out(1, 5 * 512);
  EXPECT_EQ(accounts.bytes().current, 9 * 512);
  EXPECT_EQ(accounts.bytes().peak, 10 * 512);
}

TEST(Accounts, BorrowNothingAsLongAsTheDeviceIsHeld) {
  AccountsOf accounts(2);
  for (int i = 0; i < 100; i++) accounts.pair(0);
  accounts.stop();
  for (int i = 0; i < 100; i++) accounts.pair(0);
  EXPECT_TRUE(accounts.is_recalled());
  accounts.go_on();
  EXPECT_FALSE(accounts.is_recalled());
}

TEST(Accounts, OfBusyShardsAreKeptAlsoWhereTheyHadOneBefore) {
  AccountsOf accounts(2);
  for (int i = 0; i < 1000; i++) accounts.pair(0);
  while (!accounts.at(0).is_shared) accounts.recall();
  for (int i = 0; i < 100; i++) accounts.pair(0);
  accounts.recall();
  accounts.recall();
  EXPECT_FALSE(accounts.at(0).is_shared) << "it was idle before one recall only";
}

}  // namespace
}  // namespace cachalot
