// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/device_settings.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

class SettingsOfADevice : public testing::Test {
 protected:
  void change(Settings settings) { device_.swap(settings); }
  void divide(uint64_t divisions) {
    Settings settings;
    settings.roundup_power2_divisions.fill(divisions);
    change(settings);
  }

  SlowPathFlags flags_;
  Rules rules_;
  DeviceSettings device_{{}, rules_, flags_};
};

// [core 4.1, 4.2]
TEST_F(SettingsOfADevice, RoundSizesTo512Bytes) {
  EXPECT_EQ(device_.round_size(1), 512u);
  EXPECT_EQ(device_.round_size(512), 512u);
  EXPECT_EQ(device_.round_size(513), 1024u);
  EXPECT_EQ(device_.round_size(MiB + 1), MiB + 512);
}

// [core 4.5]
TEST_F(SettingsOfADevice, RoundSizesByDivisions) {
  divide(4);
  EXPECT_EQ(device_.round_size(1200), 1536u) << "512 bytes for each division are not too much";
  EXPECT_EQ(device_.round_size(2049), 2560u);
  EXPECT_EQ(device_.round_size(5000000), 5 * MiB);
  EXPECT_EQ(device_.round_size(84 * MiB), 96 * MiB);
  EXPECT_EQ(device_.round_size(64 * MiB), 64 * MiB);
  divide(uint64_t{1} << 55);
  EXPECT_EQ(device_.round_size(513), 1024u) << "there is no step";
}

// [core 4.4, 4.6]
TEST_F(SettingsOfADevice, ChooseTheDivisionsByTheSizeAsAsked) {
  Settings settings;
  settings.roundup_power2_divisions[6] = 8;
  settings.roundup_power2_divisions[15] = 2;
  change(settings);
  EXPECT_EQ(device_.round_size(84 * MiB), 88 * MiB);
  EXPECT_EQ(device_.round_size(63 * MiB + 1), 63 * MiB + 512);
  EXPECT_EQ(device_.round_size(130 * MiB + 1), 130 * MiB + 512);
  EXPECT_EQ(device_.round_size(70 * GiB), 96 * GiB) << "the last slot serves all above";
}

TEST_F(SettingsOfADevice, LeaveSizesAboveTheBypassThresholdAlone) {
  Settings settings;
  settings.roundup_power2_divisions.fill(4);
  settings.roundup_bypass_threshold = 84 * MiB;
  change(settings);
  EXPECT_EQ(device_.round_size(84 * MiB), 96 * MiB);
  EXPECT_EQ(device_.round_size(84 * MiB + 512), 84 * MiB + 512);
}

// [core 5.2]
TEST_F(SettingsOfADevice, ChooseTheSizeOfASegment) {
  EXPECT_EQ(device_.segment_size_for(MiB), 2 * MiB);
  EXPECT_EQ(device_.segment_size_for(MiB + 512), 20 * MiB);
  EXPECT_EQ(device_.segment_size_for(10 * MiB - 512), 20 * MiB);
  EXPECT_EQ(device_.segment_size_for(10 * MiB), 10 * MiB);
  EXPECT_EQ(device_.segment_size_for(10 * MiB + 512), 12 * MiB);
}

TEST_F(SettingsOfADevice, SetTheFlagOfRoundingOnlyForSeveralDivisions) {
  divide(1);
  EXPECT_TRUE(flags_.none());
  divide(2);
  EXPECT_TRUE(flags_.has(SlowPath::kRounding));
  divide(0);
  EXPECT_TRUE(flags_.none());
}

// [core 6.2]
TEST_F(SettingsOfADevice, CountAgesWithALimitAndAThresholdAndKeepTheMarks) {
  Settings settings;
  settings.garbage_collection_threshold = 0.5;
  change(settings);
  EXPECT_TRUE(flags_.none());
  device_.set_limit(GiB);
  EXPECT_TRUE(flags_.has(SlowPath::kAging));
  EXPECT_TRUE(flags_.has(SlowPath::kMarks));
  device_.set_limit(kUnlimited);
  EXPECT_FALSE(flags_.has(SlowPath::kAging));
  EXPECT_TRUE(flags_.has(SlowPath::kMarks));
}

// R25
TEST_F(SettingsOfADevice, RoundALimitToTheNearestByteAndDownInRelease211) {
  EXPECT_EQ(device_.limit_of(0.5, 1001), 501u);
  rules_ = rules_of(Release::k2_11);
  EXPECT_EQ(device_.limit_of(0.5, 1001), 500u);
}

// [core 6.6]
TEST_F(SettingsOfADevice, GiveHitsTheirRules) {
  Settings settings;
  settings.max_split_size = 30 * MiB;
  settings.expandable_segments = true;
  change(settings);
  EXPECT_EQ(device_.hit_rules().max_split_size, 30 * MiB);
  EXPECT_TRUE(device_.hit_rules().expandable_segments);
  EXPECT_EQ(device_.hit_rules().least_remainder[0], 512u);
  EXPECT_EQ(device_.oversize_of(30 * MiB), 1);
  EXPECT_EQ(device_.oversize_of(30 * MiB - 512), 0);
}

}  // namespace
}  // namespace cachalot
