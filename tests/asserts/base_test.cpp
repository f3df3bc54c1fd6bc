// SPDX-License-Identifier: MIT OR Apache-2.0
// Faults in the use of core/base are found.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/pages.h"
#include "base/stable_pool.h"
#include "base/units.h"

namespace cachalot {
namespace {

struct Thing {
  uint64_t words[8];
};

TEST(BaseDeathTest, FindsARoundingThatRunsOver) {
  EXPECT_EQ(round_up(UINT64_MAX - 1023, 512), UINT64_MAX - 1023);
  EXPECT_DEATH(round_up(UINT64_MAX - 100, 512), "n <= UINT64_MAX - unit");
  EXPECT_DEATH(round_down(1, 0), "unit != 0");
}

TEST(BaseDeathTest, FindsALogarithmOfNothing) { EXPECT_DEATH(log2_floor(0), "n > 0"); }

TEST(BaseDeathTest, FindsAnErrorThatIsNone) {
  EXPECT_DEATH(Error(Status::kOk, "no error"), "status != Status::kOk");
  EXPECT_DEATH(Error(0, "no error"), "driver_code != 0");
}

TEST(BaseDeathTest, FindsAnAlignmentThatIsNoPowerOfTwo) {
  EXPECT_DEATH(map_aligned_zero_pages(12288), "is_power_of_two");
}

TEST(BaseDeathTest, FindsAnObjectThatIsGivenBackTwice) {
  StablePool<Thing> pool;
  Thing* const thing = pool.take();
  pool.give(thing);
  EXPECT_DEATH(pool.give(thing), "!is_free");
}

TEST(BaseDeathTest, FindsAnObjectOfAnotherPool) {
  StablePool<Thing> pool;
  StablePool<Thing> other;
  pool.take();
  EXPECT_DEATH(pool.give(other.take()), "slabs_.end");
}

}  // namespace
}  // namespace cachalot
