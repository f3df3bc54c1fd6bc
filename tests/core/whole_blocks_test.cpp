// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pools/whole_blocks.h"

#include <gtest/gtest.h>

#include "../test_seed.h"
#include "alloc/pools/private_pool.h"
#include "heap_parts.h"

namespace cachalot {
namespace {

TEST(WholeBlocks, HaveEightClassesADoubling) {
  EXPECT_EQ(WholeBlocks::class_of(512), 512u);
  EXPECT_EQ(WholeBlocks::class_of(8 * KiB), 8 * KiB);
  EXPECT_EQ(WholeBlocks::class_of(8 * KiB + 512), 9 * KiB);
  EXPECT_EQ(WholeBlocks::class_of(16 * KiB - 512), 16 * KiB);
  EXPECT_EQ(WholeBlocks::class_of(64 * MiB + 512), 72 * MiB);
  EXPECT_EQ(WholeBlocks::class_of(120 * MiB + 512), 128 * MiB);
}

TEST(WholeBlocks, HaveClassesNoFinerThanTheDriversSteps) {
  EXPECT_EQ(WholeBlocks::class_of(1024), 1024u);
  EXPECT_EQ(WholeBlocks::class_of(1024 + 512), 1024u + 512);
  EXPECT_EQ(WholeBlocks::class_of(MiB), MiB);
  EXPECT_EQ(WholeBlocks::class_of(MiB + 512), 2 * MiB);
  EXPECT_EQ(WholeBlocks::class_of(2 * MiB + 512), 4 * MiB);
  EXPECT_EQ(WholeBlocks::class_of(16 * MiB + 512), 18 * MiB);
}

// On this the bound rests.
TEST(WholeBlocks, HaveClassesThatFitTheirRequests) {
  Random random(test_seed());
  for (int i = 0; i < 100000; i++) {
    const uint64_t size =
        round_up(random.of_any_magnitude(1, kTooLarge - kMinBlockSize), kMinBlockSize);
    const uint64_t of_class = WholeBlocks::class_of(size);
    ASSERT_GE(of_class, size);
    ASSERT_TRUE(WholeBlocks::fits(of_class, size)) << size;
    ASSERT_EQ(WholeBlocks::class_of(of_class), of_class);
    ASSERT_EQ(of_class % driver_step(of_class), 0u);
    ASSERT_EQ(of_class > kSmallSize, size > kSmallSize) << "another pool";
  }
}

TEST(WholeBlocks, FitUpToAQuarterMoreThanTheDriverTakes) {
  EXPECT_TRUE(WholeBlocks::fits(10 * MiB, 7 * MiB));  // of which the driver makes 8
  EXPECT_FALSE(WholeBlocks::fits(12 * MiB, 8 * MiB));
  EXPECT_TRUE(WholeBlocks::fits(5 * KiB, 4 * KiB));
  EXPECT_FALSE(WholeBlocks::fits(5 * KiB + 512, 4 * KiB));
}

TEST(WholeBlocks, BoundFiveQuartersOfThePeakAndOfTheRequest) {
  WholeBlocks whole;
  EXPECT_EQ(whole.most_reserved(4 * MiB), 5 * MiB);
  whole.handed_out(3 * MiB);
  whole.handed_out(3 * MiB);
  whole.freed(3 * MiB);
  EXPECT_EQ(whole.in_use(), 4 * MiB);
  EXPECT_EQ(whole.peak(), 8 * MiB);
  EXPECT_EQ(whole.most_reserved(4 * MiB), 10 * MiB);
  EXPECT_EQ(whole.most_reserved(8 * MiB), 15 * MiB);
}

TEST(WholeBlocks, BurdenMoreTheLargerAndOlderTheyAre) {
  HeapParts parts;
  PrivatePool pool({0, 1});
  pool.whole.emplace();
  Block* const old_small = parts.add_segment(pool.large, 0, 4 * MiB);
  Block* const young_large = parts.add_segment(pool.large, 0, 8 * MiB);
  WholeBlocks& whole = *pool.whole;
  whole.stamp(old_small);
  whole.stamp(young_large);
  EXPECT_EQ(whole.burden_of(old_small), whole.burden_of(young_large));
  whole.stamp(young_large);
  EXPECT_GT(whole.burden_of(old_small), whole.burden_of(young_large));
  whole.stamp(old_small);
  EXPECT_LT(whole.burden_of(old_small), whole.burden_of(young_large));
}

}  // namespace
}  // namespace cachalot
