// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/labels.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

LabelText text_of(size_t number) {
  return std::make_shared<const std::string>("label " + std::to_string(number));
}

Labels::Slot use(Labels& labels, size_t number) {
  const Labels::Slot slot = labels.pin(text_of(number));
  labels.unpin(slot);
  return slot;
}

// A block that is freed at once.
void count(LabelRows& rows, size_t number) {
  const Labels::Slot slot = rows.use(text_of(number));
  rows.keep(slot);
  rows.count(slot, 512);
  rows.uncount(slot, 512);
  rows.release(slot);
}

void fill(Labels& labels) {
  for (size_t i = 0; i < Labels::kMost; i++) use(labels, i);
}

TEST(Labels, HaveTheSameSlotForTheSameText) {
  Labels labels;
  EXPECT_EQ(use(labels, 1), use(labels, 1));
  EXPECT_NE(use(labels, 1), use(labels, 2));
  EXPECT_EQ(labels.pin(nullptr), Labels::kNone);
}

TEST(Labels, GiveTheSlotOfTheOneThatHasBeenIdleLongest) {
  Labels labels;
  fill(labels);
  use(labels, 0);
  const Labels::Slot oldest = use(labels, 1);
  for (size_t i = 2; i < Labels::kMost; i++) use(labels, i);
  use(labels, 0);
  EXPECT_EQ(use(labels, 5000), oldest);
  EXPECT_EQ(labels.text(oldest), "label 5000");
}

TEST(Labels, KeepTheSlotOfOneThatIsPinned) {
  Labels labels;
  const Labels::Slot pinned = labels.pin(text_of(0));
  fill(labels);
  for (size_t i = 0; i < 3 * Labels::kMost; i++) EXPECT_NE(use(labels, 5000 + i), pinned);
  EXPECT_EQ(labels.text(pinned), "label 0");
}

TEST(Labels, AreOthersWhereAllSlotsArePinned) {
  Labels labels;
  for (size_t i = 0; i < Labels::kMost; i++) labels.pin(text_of(i));
  EXPECT_EQ(labels.pin(text_of(5000)), Labels::kOther);
  EXPECT_EQ(labels.text(Labels::kOther), "(other)");
}

// One device counts a label, and another one takes its slot for a new label.
TEST(LabelRows, AddTheSumsOfALabelThatAnotherDeviceEndedToTheOthers) {
  Labels labels;
  LabelRows rows(labels);
  count(rows, 0);
  count(rows, 1);
  for (size_t i = 2; i <= Labels::kMost; i++) use(labels, i);
  count(rows, Labels::kMost);
  const std::vector<LabelStats> left = rows.rows();
  ASSERT_EQ(left.size(), 3u);
  EXPECT_EQ(*left[0].label, "label 1");
  EXPECT_EQ(*left[1].label, "label 1000");
  EXPECT_EQ(*left[2].label, "(other)");
  EXPECT_EQ(left[2].allocation.allocated, 1);
  EXPECT_EQ(left[2].allocated_bytes.freed, 512);
  EXPECT_EQ(left[2].allocated_bytes.current, 0);
}

TEST(LabelRows, KeepTheLabelThatTheDeviceUsedLast) {
  Labels labels;
  LabelRows rows(labels);
  count(rows, 0);
  const Labels::Slot slot = rows.use(text_of(0));
  for (size_t i = 1; i <= 2 * Labels::kMost; i++) use(labels, i);
  EXPECT_TRUE(labels.is_pinned(slot));
  EXPECT_EQ(labels.text(slot), "label 0");
  count(rows, 1);
  EXPECT_FALSE(labels.is_pinned(slot));
}

TEST(LabelRows, GiveTheSlotOfTheLastLabelToTheNextWhereAllOthersArePinned) {
  Labels labels;
  LabelRows rows(labels);
  count(rows, 0);
  for (size_t i = 1; i < Labels::kMost; i++) labels.pin(text_of(i));
  EXPECT_EQ(labels.text(rows.use(text_of(5000))), "label 5000");
}

TEST(LabelRows, PinALabelAsLongAsABlockKeepsIt) {
  Labels labels;
  Labels::Slot slot;
  {
    LabelRows rows(labels);
    slot = rows.use(text_of(0));
    rows.keep(slot);
    rows.use(text_of(1));
    EXPECT_TRUE(labels.is_pinned(slot));
    rows.use(text_of(0));
    rows.release(slot);
    EXPECT_TRUE(labels.is_pinned(slot));
  }
  EXPECT_FALSE(labels.is_pinned(slot));
}

TEST(LabelRows, DoNotRememberThatAllSlotsWereTaken) {
  Labels labels;
  LabelRows rows(labels);
  const Labels::Slot first = labels.pin(text_of(1));
  for (size_t i = 2; i <= Labels::kMost; i++) labels.pin(text_of(i));
  EXPECT_EQ(rows.use(text_of(0)), Labels::kOther);
  labels.unpin(first);
  EXPECT_EQ(labels.text(rows.use(text_of(0))), "label 0");
}

TEST(LabelRows, AreInTheOrderOfFirstUsesAlsoWhereASlotWasGivenAgain) {
  Labels labels;
  LabelRows rows(labels);
  count(rows, 0);
  count(rows, 1);
  fill(labels);
  count(rows, 5000);
  count(rows, 2);
  const std::vector<LabelStats> counted = rows.rows();
  ASSERT_EQ(counted.size(), 4u);
  EXPECT_EQ(*counted[0].label, "label 1");
  EXPECT_EQ(*counted[1].label, "label 2");
  EXPECT_EQ(*counted[2].label, "label 5000");
  EXPECT_EQ(*counted[3].label, "(other)");
}

}  // namespace
}  // namespace cachalot
