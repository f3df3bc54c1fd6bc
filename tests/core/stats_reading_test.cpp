// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/stats_reading.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

Counters::Rows rows_of(int64_t bytes) {
  Counters::Rows rows;
  rows[Counters::kAll].limit[Counters::kBytes] = bytes;
  return rows;
}
int64_t bytes(const Counters::Rows& rows) { return rows[Counters::kAll].limit[Counters::kBytes]; }

TEST(StatsReading, IsAnnouncedAsLongAsItLasts) {
  SlowPathFlags flags;
  StatsReading reading(flags);
  EXPECT_FALSE(reading.is_under_way());
  reading.begin();
  EXPECT_TRUE(flags.has(SlowPath::kReading));
  EXPECT_EQ(reading.number(), 1u);
  reading.end();
  EXPECT_TRUE(flags.none());
}

TEST(StatsReading, ShowsTheSharedAccountAsItWasBeforeTheFirstCallThatCameLater) {
  SlowPathFlags flags;
  StatsReading reading(flags);
  for (const int64_t round : {1, 2}) {
    reading.begin();
    reading.preserve_shared(rows_of(100 * round));
    reading.preserve_shared(rows_of(999));
    reading.end();
    EXPECT_EQ(bytes(reading.shared()), 100 * round);
  }
}

TEST(PreservedRows, AreThoseOfTheFirstCallOfAReading) {
  PreservedRows preserved;
  preserved.prepare();
  preserved.preserve(rows_of(1), 1);
  preserved.preserve(rows_of(2), 1);
  EXPECT_EQ(bytes(preserved.rows()), 1);
  preserved.prepare();
  EXPECT_EQ(bytes(preserved.rows()), 1) << "there is room";
  preserved.preserve(rows_of(3), 2);
  EXPECT_EQ(bytes(preserved.rows()), 3);
}

}  // namespace
}  // namespace cachalot
