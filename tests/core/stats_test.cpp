// SPDX-License-Identifier: MIT OR Apache-2.0
// tests/data/memory_stats.json and memory_summary.txt are what torch 2.11.0 said of a small program
// on an H200.
#include "alloc/stats/stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "test_data.h"

namespace cachalot {
namespace {

std::map<std::string, int64_t> recorded_stats() {
  return nlohmann::json::parse(read_source_file("tests/data/memory_stats.json"))
      .get<std::map<std::string, int64_t>>();
}

// Writes through the same offsets that stat_value reads by.
void set_value(Stats* stats, const StatName& row, int64_t value) {
  *reinterpret_cast<int64_t*>(reinterpret_cast<char*>(stats) + row.offset) = value;
}

TEST(Stat, CountsItsSumsModulo2To63) {
  Stat stat;
  for (int i = 0; i < 3; i++) {
    stat.increase(INT64_MAX);
    stat.decrease(INT64_MAX);
  }
  EXPECT_EQ(stat.current, 0);
  EXPECT_EQ(stat.peak, INT64_MAX);
  EXPECT_EQ(stat.allocated, INT64_MAX - 2);
  EXPECT_EQ(stat.freed, INT64_MAX - 2);
}

TEST(StatNames, AreTheNamesAndTheOrderOfARealRun) {
  const auto recorded = recorded_stats();
  const auto rows = stat_names(false);
  ASSERT_EQ(rows.size(), 122u);
  ASSERT_EQ(recorded.size(), 122u);
  auto next = recorded.begin();
  for (const StatName& row : rows) EXPECT_EQ(row.name, (next++)->first);
}

TEST(StatNames, HaveRejectionsBetweenDeviceFreesAndOutOfMemoryErrors) {
  const auto rows = stat_names(true);
  ASSERT_EQ(rows.size(), 123u);
  const auto found = std::find_if(rows.begin(), rows.end(), [](const StatName& row) {
    return std::string(row.name) == "num_oom_rejections";
  });
  ASSERT_NE(found, rows.end());
  EXPECT_STREQ((found - 1)->name, "num_device_free");
  EXPECT_STREQ((found + 1)->name, "num_ooms");
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(), [](const StatName& a, const StatName& b) {
    return std::string(a.name) < b.name;
  }));
}

TEST(StatNames, LeadToTheFieldThatTheyName) {
  Stats stats;
  int64_t value = 1000;
  for (const StatName& row : stat_names(true)) set_value(&stats, row, value++);
  std::map<std::string, int64_t> values;
  for (const StatName& row : stat_names(true)) values[row.name] = stat_value(stats, row);
  EXPECT_EQ(values.size(), 123u);
  EXPECT_EQ(values["active.all.allocated"], stats.active.all.allocated);
  EXPECT_EQ(values["allocated_bytes.small_pool.peak"], stats.allocated_bytes.small_pool.peak);
  EXPECT_EQ(values["segment.large_pool.freed"], stats.segment.large_pool.freed);
  EXPECT_EQ(values["oversize_segments.current"], stats.oversize_segments.current);
  EXPECT_EQ(values["max_split_size"], stats.max_split_size);
  EXPECT_EQ(values["num_oom_rejections"], stats.num_oom_rejections);
}

TEST(MemorySummary, IsTheTableOfARealRunByteForByte) {
  const auto recorded = recorded_stats();
  Stats stats;
  for (const StatName& row : stat_names(false)) set_value(&stats, row, recorded.at(row.name));
  EXPECT_EQ(memory_summary(stats, 0, false), read_source_file("tests/data/memory_summary.txt"));
}

TEST(MemorySummary, AbbreviatedLacksTheRowsByPool) {
  const std::string text = memory_summary(Stats{}, 12, true);
  EXPECT_EQ(text.find("large pool"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6 + 2 * 11 + 1);
  EXPECT_NE(text.find("device ID 12               "), std::string::npos);
}

// The cell for a current value in the first row of sizes or of counts.
std::string cell(int64_t bytes, int64_t allocations) {
  Stats stats;
  stats.allocated_bytes.all.current = bytes;
  stats.allocation.all.current = allocations;
  const std::string text = memory_summary(stats, 0, true);
  const std::string name = bytes != 0 ? "| Allocated memory      | " : "| Allocations           | ";
  const size_t begin = text.find(name) + name.size();
  return text.substr(begin, text.find(" |", begin) - begin);
}

TEST(MemorySummary, ChoosesTheUnitOfASizeAt768OfTheNextSmallerOne) {
  EXPECT_EQ(cell(786431, 0), "786431 B  ");
  EXPECT_EQ(cell(786432, 0), "   768 KiB");
  EXPECT_EQ(cell(int64_t{20} << 20, 0), " 20480 KiB");
  EXPECT_EQ(cell(int64_t{768} << 20, 0), "   768 MiB");
  EXPECT_EQ(cell(int64_t{1536} << 20, 0), "  1536 MiB");
  EXPECT_EQ(cell(INT64_MAX, 0), "  8191 PiB");
}

TEST(MemorySummary, ChoosesTheUnitOfACountAt750Thousand) {
  EXPECT_EQ(cell(0, 749999), " 749999   ");
  EXPECT_EQ(cell(0, 750000), "    750 K ");
  EXPECT_EQ(cell(0, 750000000), "    750 M ");
  EXPECT_EQ(cell(0, 12345678000000), "12345678 M ");
}

TEST(MemorySummary, GivesTheRowsOfAMetricTheUnitOfItsSum) {
  Stats stats;
  stats.reserved_bytes.all.peak = int64_t{1} << 30;
  stats.reserved_bytes.small_pool.peak = 2048;
  const std::string text = memory_summary(stats, 0, false);
  const size_t metric = text.find("GPU reserved memory");
  const size_t small = text.find("from small pool", metric);
  EXPECT_EQ(text.substr(small + 16, 25), "|      0 B   |      0 MiB");
}

}  // namespace
}  // namespace cachalot
