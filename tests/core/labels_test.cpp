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
void count(Labels& labels, LabelRows& rows, size_t number) {
  const LabelPin pin(&labels, text_of(number));
  rows.reserve(pin.slot());
  rows.count(pin.slot(), 512);
  rows.uncount(pin.slot(), 512);
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
  count(labels, rows, 0);
  for (size_t i = 1; i <= Labels::kMost; i++) use(labels, i);
  count(labels, rows, Labels::kMost);
  const std::vector<LabelStats> left = rows.rows();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(*left[0].label, "label 1000");
  EXPECT_EQ(*left[1].label, "(other)");
  EXPECT_EQ(left[1].allocation.allocated, 1);
  EXPECT_EQ(left[1].allocated_bytes.freed, 512);
  EXPECT_EQ(left[1].allocated_bytes.current, 0);
}

TEST(LabelRows, AreInTheOrderOfFirstUsesAlsoWhereASlotWasGivenAgain) {
  Labels labels;
  LabelRows rows(labels);
  count(labels, rows, 0);
  fill(labels);
  count(labels, rows, 5000);
  count(labels, rows, 1);
  const std::vector<LabelStats> counted = rows.rows();
  ASSERT_EQ(counted.size(), 3u);
  EXPECT_EQ(*counted[0].label, "label 1");
  EXPECT_EQ(*counted[1].label, "label 5000");
  EXPECT_EQ(*counted[2].label, "(other)");
}

}  // namespace
}  // namespace cachalot
