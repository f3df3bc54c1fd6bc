// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/assert.h"

#include <gtest/gtest.h>

#include "level.h"

namespace cachalot {
namespace {

TEST(Assert, EvaluatesWhatIsCompiledInAtItsLevel) {
  EXPECT_EQ(evaluated_at<0>(), (Evaluated{0, 0}));
  EXPECT_EQ(evaluated_at<1>(), (Evaluated{1, 0}));
  EXPECT_EQ(evaluated_at<2>(), (Evaluated{1, 1}));
}

TEST(Assert, LetsPassWhatIsNotCompiledIn) {
  fail_at<0>(1);
  fail_at<0>(2);
  fail_at<1>(2);
}

TEST(AssertDeathTest, WritesFileLineFunctionAndCondition) {
  EXPECT_DEATH(fail_at<1>(1), "level\\.cpp:[0-9]+: fail_at.*: assertion failed: level != 1");
  EXPECT_DEATH(fail_at<2>(1), "assertion failed: level != 1");
  EXPECT_DEATH(fail_at<2>(2), "assertion failed: level != 2");
}

TEST(AssertDeathTest, TakesConditionsWithCommas) {
  const auto is_less = [](int a, int b) { return a < b; };
  CACHALOT_ASSERT(1, is_less(1, 2));
  EXPECT_DEATH(CACHALOT_ASSERT(1, is_less(2, 1)), "assertion failed: is_less\\(2, 1\\)");
}

}  // namespace
}  // namespace cachalot
