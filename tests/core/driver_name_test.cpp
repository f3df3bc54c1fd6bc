// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/driver_name.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"

namespace cachalot {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_driver_name(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::kInvalidArgument);
    return error.message();
  }
  return "";
}

TEST(DriverName, HasADefaultCapacityWhereNoneIsSaid) {
  EXPECT_EQ(parse_driver_name("host").kind, DriverKind::kHost);
  EXPECT_EQ(parse_driver_name("host").capacity, 0u);
  EXPECT_EQ(parse_driver_name("sim").kind, DriverKind::kSim);
  EXPECT_EQ(parse_driver_name("cuda").kind, DriverKind::kCuda);
}

TEST(DriverName, TakesTheLimitsOfControlGroupsForGPUsOnly) {
  EXPECT_TRUE(parse_driver_name("cuda:cgroup").has_group_limits);
  EXPECT_EQ(parse_driver_name("cuda:cgroup").kind, DriverKind::kCuda);
  EXPECT_FALSE(parse_driver_name("cuda:3GiB").has_group_limits);
  EXPECT_NE(refusal("host:cgroup"), "");
  EXPECT_NE(refusal("cuda:cgroups"), "");
}

TEST(DriverName, ReadsEveryUnit) {
  EXPECT_EQ(parse_driver_name("host:512").capacity, 512u);
  EXPECT_EQ(parse_driver_name("host:512B").capacity, 512u);
  EXPECT_EQ(parse_driver_name("host:3KiB").capacity, 3 * KiB);
  EXPECT_EQ(parse_driver_name("host:3MiB").capacity, 3 * MiB);
  EXPECT_EQ(parse_driver_name("sim:80GiB").capacity, 80 * GiB);
  EXPECT_EQ(parse_driver_name("sim:2TiB").capacity, 2048 * GiB);
  EXPECT_EQ(parse_driver_name("sim:18446744073709551615").capacity, UINT64_MAX);
}

TEST(DriverName, RefusesWhatIsNoDriver) {
  EXPECT_EQ(refusal("gpu"),
            "\"gpu\" is no driver: cuda[:CAPACITY], cuda:cgroup, host[:CAPACITY], "
            "host-shared[:CAPACITY] or sim[:CAPACITY]");
  for (const char* text : {"", "Host", "host ", ":4GiB", "custom", "hosts:1"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

TEST(DriverName, RefusesWhatIsNoCapacity) {
  EXPECT_EQ(refusal("sim:80GB"),
            "driver \"sim:80GB\": a capacity is a number above 0 with B, KiB, MiB, GiB or TiB, "
            "for example 80GiB");
  for (const char* text :
       {"sim:", "sim:0", "sim:0GiB", "sim:-1", "sim: 1", "sim:1 GiB", "sim:1.5GiB", "sim:GiB",
        "sim:1GiB ", "sim:18446744073709551616", "sim:16777216TiB"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

}  // namespace
}  // namespace cachalot
