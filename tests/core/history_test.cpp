// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/history.h"

#include <gtest/gtest.h>

#include <vector>

namespace cachalot {
namespace {

// A ring of entries that are told apart by their sizes, 1 and up.
class NumberedRing {
 public:
  void add(int count) {
    for (int i = 0; i < count; ++i) {
      TraceEntry entry{};
      entry.size = ++last_;
      ring_.next() = entry;
    }
  }
  void set_limit(uint64_t limit, bool keep_order = false) { ring_.set_limit(limit, keep_order); }
  void clear() { ring_.clear(); }

  std::vector<uint64_t> sizes() const {
    std::vector<uint64_t> sizes;
    for (const TraceEntry& entry : ring_.entries()) sizes.push_back(entry.size);
    return sizes;
  }

 private:
  HistoryRing ring_;
  uint64_t last_ = 0;
};

using Sizes = std::vector<uint64_t>;

TEST(ActionNames, AreThoseOfTheReference) {
  EXPECT_STREQ(action_name(Action::kAlloc), "alloc");
  EXPECT_STREQ(action_name(Action::kSegmentUnmap), "segment_unmap");
  EXPECT_STREQ(action_name(Action::kAnnotate), "annotate");
  EXPECT_STREQ(action_name(static_cast<Action>(kRecordedActionCount)), "unknown");
  EXPECT_STREQ(action_name(static_cast<Action>(-1)), "unknown");
}

TEST(HistoryRing, HoldsOneEntryAtFirst) {
  NumberedRing ring;
  EXPECT_EQ(ring.sizes(), Sizes());
  ring.add(2);
  EXPECT_EQ(ring.sizes(), Sizes({2}));
}

TEST(HistoryRing, ReplacesTheOldestEntryWhenItIsFull) {
  NumberedRing ring;
  ring.set_limit(3);
  ring.add(2);
  EXPECT_EQ(ring.sizes(), Sizes({1, 2}));
  ring.add(6);
  EXPECT_EQ(ring.sizes(), Sizes({6, 7, 8}));
}

TEST(HistoryRing, TakesALimitOfZeroAsOne) {
  NumberedRing ring;
  ring.set_limit(0);
  ring.add(3);
  EXPECT_EQ(ring.sizes(), Sizes({3}));
}

TEST(HistoryRing, ForgetsItsPositionWhenItIsCleared) {
  NumberedRing ring;
  ring.set_limit(4);
  ring.add(6);
  ring.clear();
  EXPECT_EQ(ring.sizes(), Sizes());
  ring.add(5);
  EXPECT_EQ(ring.sizes(), Sizes({8, 9, 10, 11}));
}

TEST(HistoryRing, KeepsOldEntriesInBetweenAfterALowerLimit) {
  NumberedRing ring;
  ring.set_limit(5);
  ring.add(5);
  ring.set_limit(3);
  EXPECT_EQ(ring.sizes(), Sizes({1, 2, 3, 4, 5}));
  ring.add(2);
  EXPECT_EQ(ring.sizes(), Sizes({3, 4, 5, 6, 7}));
  ring.add(2);
  EXPECT_EQ(ring.sizes(), Sizes({7, 8, 4, 5, 9}));
}

TEST(HistoryRing, KeepsItsRotationAfterAHigherLimit) {
  NumberedRing ring;
  ring.set_limit(3);
  ring.add(4);
  ring.set_limit(5);
  ring.add(1);
  EXPECT_EQ(ring.sizes(), Sizes({2, 3, 5, 4}));
  ring.add(2);
  EXPECT_EQ(ring.sizes(), Sizes({3, 5, 6, 4, 7}));
}

TEST(HistoryRing, StaysInsideItsBufferWhenTheLimitFallsBelowItsPosition) {
  NumberedRing ring;
  ring.set_limit(5);
  ring.add(9);
  ring.set_limit(2);
  ring.add(1);
  EXPECT_EQ(ring.sizes(), Sizes({6, 7, 8, 9, 10}));
  ring.add(2);
  EXPECT_EQ(ring.sizes(), Sizes({11, 12, 8, 9, 10}));
}

TEST(HistoryRing, KeepsTheOrderThroughEveryChangeOfTheLimitIfThatIsMended) {
  NumberedRing ring;
  ring.set_limit(5, true);
  ring.add(7);
  ring.set_limit(3, true);
  EXPECT_EQ(ring.sizes(), Sizes({5, 6, 7}));
  ring.add(1);
  ring.set_limit(4, true);
  ring.add(2);
  EXPECT_EQ(ring.sizes(), Sizes({7, 8, 9, 10}));
}

}  // namespace
}  // namespace cachalot
