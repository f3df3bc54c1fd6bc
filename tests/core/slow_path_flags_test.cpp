// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sync/slow_path_flags.h"

#include <gtest/gtest.h>

#include "slow_to_wake.h"

namespace cachalot {
namespace {

TEST(SlowPathFlags, AreTheSlowPathWhileOneIsSet) {
  SlowPathFlags flags;
  EXPECT_TRUE(flags.none());
  flags.add(SlowPath::kTracing | SlowPath::kMarks);
  flags.put(SlowPath::kMarks, false);
  EXPECT_FALSE(flags.none());
  EXPECT_TRUE(flags.has(SlowPath::kTracing));
  EXPECT_FALSE(flags.has(SlowPath::kMarks));
  flags.drop(SlowPath::kTracing);
  EXPECT_TRUE(flags.none());
}

TEST(SlowPathFlags, TellAMomentFromALastingReason) {
  SlowPathFlags flags;
  EXPECT_TRUE(flags.wait_while_held());
  flags.add(SlowPath::kTracing | SlowPath::kHeld);
  EXPECT_FALSE(flags.wait_while_held());
  flags.drop(SlowPath::kHeld);
  EXPECT_FALSE(flags.wait_while_held());
  flags.drop(SlowPath::kTracing);
  EXPECT_TRUE(flags.wait_while_held());
}

TEST(SlowPathFlags, LeadToAttributedHitsUnlessASnapshotCopies) {
  constexpr uint32_t kOthers = SlowPath::kScarce | SlowPath::kReading | SlowPath::kPendingFrees;
  for (const uint32_t attribution : {SlowPath::kTracing, SlowPath::kLabels, SlowPath::kTenants}) {
    EXPECT_TRUE(SlowPath::is_attributed(attribution));
    EXPECT_TRUE(SlowPath::is_attributed(attribution | kOthers));
    EXPECT_FALSE(SlowPath::is_attributed(attribution | SlowPath::kCopying));
  }
  EXPECT_FALSE(SlowPath::is_attributed(kOthers));
}

TEST(SlowPathFlagsThreads, LetAThreadThatIsSlowToWakeThroughBetweenHolds) {
  SlowPathFlags flags;
  expect_turns_beside_holds(
      [&](const auto& held) {
        flags.let_starved_go_first();
        flags.add(SlowPath::kHeld);
        held();
        flags.drop(SlowPath::kHeld);
      },
      [&] { EXPECT_TRUE(flags.wait_while_held()); });
}

}  // namespace
}  // namespace cachalot
