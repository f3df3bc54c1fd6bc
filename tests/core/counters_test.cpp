// SPDX-License-Identifier: MIT OR Apache-2.0
// Counters against the plain arithmetic of stats.h.
#include "alloc/counters.h"

#include <gtest/gtest.h>

#include <vector>

#include "../test_seed.h"
#include "base/units.h"

namespace cachalot {
namespace {

// Every statistic is moved by itself.
class PlainCounters {
 public:
  void hand_out(bool is_small, const Counters::HandOut& change) {
    stats.allocation.increase(is_small, 1);
    stats.allocated_bytes.increase(is_small, change.bytes);
    stats.active.increase(is_small, 1);
    stats.active_bytes.increase(is_small, change.bytes);
    stats.requested_bytes.increase(is_small, change.requested);
    move_split(is_small, change);
  }
  void give_back(bool is_small, int64_t bytes) {
    stats.allocation.decrease(is_small, 1);
    stats.allocated_bytes.decrease(is_small, bytes);
  }
  void complete(bool is_small, const Counters::HandOut& change) {
    stats.active.decrease(is_small, 1);
    stats.active_bytes.decrease(is_small, change.bytes);
    stats.requested_bytes.decrease(is_small, change.requested);
    move_split(is_small, change);
  }
  template <typename Reset>
  void for_each(Reset reset) {
    for (StatArray* array :
         {&stats.allocation, &stats.allocated_bytes, &stats.active, &stats.active_bytes,
          &stats.requested_bytes, &stats.inactive_split, &stats.inactive_split_bytes}) {
      array->for_each(reset);
    }
  }

  Stats stats;

 private:
  static void move(StatArray& array, bool is_small, int64_t n) {
    if (n > 0) array.increase(is_small, n);
    if (n < 0) array.decrease(is_small, -n);
  }
  void move_split(bool is_small, const Counters::HandOut& change) {
    move(stats.inactive_split, is_small, change.split_count);
    move(stats.inactive_split_bytes, is_small, change.split_bytes);
  }
};

// Blocks that are handed out and freed at random, told to both.
class CounterRun {
 public:
  explicit CounterRun(uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.below(16)) {
      case 0:
        return reset_peak();
      case 1:
        return reset_accumulated();
      case 2:
      case 3:
      case 4:
        return give_back();
      case 5:
      case 6:
        return complete();
      case 7:
      case 8:
      case 9:
        return give_back_and_complete();
      default:
        return hand_out();
    }
  }

  void expect_equal() const {
    Stats actual;
    counters_.read(&actual);
    const Stats& expected = plain_.stats;
    for (const StatName& row : stat_names(true)) {
      ASSERT_EQ(stat_value(actual, row), stat_value(expected, row)) << row.name;
    }
    ASSERT_EQ(counters_.allocated_bytes(), expected.allocated_bytes.all.current);
    ASSERT_EQ(counters_.max_allocated_bytes(), expected.allocated_bytes.all.peak);
    ASSERT_EQ(counters_.active_bytes(), expected.active_bytes.all.current);
    ASSERT_EQ(counters_.max_active_bytes(), expected.active_bytes.all.peak);
  }

 private:
  struct LiveBlock {
    bool is_small;
    int64_t bytes;
    int64_t requested;
  };

  int64_t up_to(int64_t last) {
    return static_cast<int64_t>(random_.below(static_cast<uint64_t>(last) + 1));
  }
  // Splits never fall below 0.
  Counters::HandOut change_of(const LiveBlock& block) {
    const Stats& stats = plain_.stats;
    const auto kind = [&](const StatArray& a) {
      return block.is_small ? a.small_pool.current : a.large_pool.current;
    };
    const int64_t splits = kind(stats.inactive_split);
    const int64_t split_bytes = kind(stats.inactive_split_bytes);
    const auto move = [&](int64_t down, int64_t up) {
      return random_.one_in(2) ? -up_to(down) : up_to(up);
    };
    return {block.bytes, block.requested, move(std::min<int64_t>(splits, 2), 2),
            move(split_bytes, static_cast<int64_t>(MiB))};
  }
  LiveBlock take(std::vector<LiveBlock>* from) {
    std::swap(random_.pick(*from), from->back());
    const LiveBlock block = from->back();
    from->pop_back();
    return block;
  }

  void hand_out() {
    const int64_t requested = 1 + up_to(static_cast<int64_t>(MiB));
    const LiveBlock block{random_.one_in(2), requested + up_to(511), requested};
    const Counters::HandOut change = change_of(block);
    counters_.hand_out(block.is_small, change);
    plain_.hand_out(block.is_small, change);
    live_.push_back(block);
  }
  void give_back() {
    if (live_.empty()) return;
    const LiveBlock block = take(&live_);
    counters_.give_back(block.is_small, block.bytes);
    plain_.give_back(block.is_small, block.bytes);
    waiting_.push_back(block);
  }
  void complete() {
    if (waiting_.empty()) return;
    const LiveBlock block = take(&waiting_);
    const Counters::HandOut change = change_of(block);
    counters_.complete(block.is_small, change);
    plain_.complete(block.is_small, change);
  }
  void give_back_and_complete() {
    if (live_.empty()) return;
    const LiveBlock block = take(&live_);
    const Counters::HandOut change = change_of(block);
    counters_.give_back_and_complete(block.is_small, change);
    plain_.give_back(block.is_small, block.bytes);
    plain_.complete(block.is_small, change);
  }
  void reset_peak() {
    counters_.reset_peak();
    plain_.for_each([](Stat& stat) { stat.reset_peak(); });
  }
  void reset_accumulated() {
    counters_.reset_accumulated();
    plain_.for_each([](Stat& stat) { stat.reset_accumulated(); });
  }

  Random random_;
  Counters counters_;
  PlainCounters plain_;
  std::vector<LiveBlock> live_;
  std::vector<LiveBlock> waiting_;
};

TEST(Counters, AreThoseOfPlainArithmeticInAnyOrderOfCalls) {
  const uint64_t seed = test_seed();
  for (uint64_t run = 0; run < 40; run++) {
    CounterRun calls(seed * 1000 + run);
    for (int step = 0; step < 500; step++) {
      calls.step();
      calls.expect_equal();
      if (HasFatalFailure()) FAIL() << "run " << run << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace cachalot
