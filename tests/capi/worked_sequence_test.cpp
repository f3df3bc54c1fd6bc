// SPDX-License-Identifier: MIT OR Apache-2.0
// The worked sequence [core 24], row by row.
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

// "current/peak/allocated/freed".
std::string fields(const cachalot_stat& stat) {
  return std::to_string(stat.current) + "/" + std::to_string(stat.peak) + "/" +
         std::to_string(stat.allocated) + "/" + std::to_string(stat.freed);
}

struct Row {
  const char* trace;
  const char* layout;
  int64_t allocated_bytes;
  const char* inactive_split;
  const char* inactive_split_bytes;
};

// With a trace observer, which takes the general path, and without one, which takes that of a hit.
class WorkedSequence : public testing::TestWithParam<std::tuple<int32_t, bool>> {
 protected:
  WorkedSequence() : with(SimSetup{.release = std::get<0>(GetParam())}) {
    if (is_watched()) with.watch();
  }

  static bool is_watched() { return std::get<1>(GetParam()); }

  void expect(const Row& row) {
    const cachalot_stats stats = with.stats();
    EXPECT_EQ(stats.allocated_bytes.small_pool.current, row.allocated_bytes);
    EXPECT_EQ(fields(stats.inactive_split.all), row.inactive_split);
    EXPECT_EQ(fields(stats.inactive_split.small_pool), row.inactive_split);
    EXPECT_EQ(fields(stats.inactive_split_bytes.all), row.inactive_split_bytes);
    EXPECT_EQ(fields(stats.inactive_split_bytes.small_pool), row.inactive_split_bytes);
    if (is_watched()) {
      EXPECT_EQ(with.take_trace(), row.trace);
    }
    EXPECT_EQ(with.layout(), row.layout);
  }

  SimAllocator with;
};

TEST_P(WorkedSequence, HasTheReferencesNumbersInEveryRow) {
  const cachalot_address x = with.allocate(1000);
  expect({"segment_alloc 0 2M; alloc 0 1000", "0: used 1K, free 2047K", 1024, "1/1/1/0",
          "2096128/2096128/2096128/0"});
  const cachalot_address y = with.allocate(5000);
  expect({"alloc 1K 5000", "0: used 1K, used 5K, free 2042K", 6144, "1/1/1/0",
          "2091008/2096128/2096128/5120"});
  const cachalot_address z = with.allocate(512);
  expect({"alloc 6K 512", "0: used 1K, used 5K, used 512, free 2090496", 6656, "1/1/1/0",
          "2090496/2096128/2096128/5632"});
  with.free(y);
  expect({"free_requested 1K 5000; free_completed 1K 5000",
          "0: used 1K, free 5K, used 512, free 2090496", 1536, "2/2/2/0",
          "2095616/2096128/2101248/5632"});
  with.free(x);
  expect({"free_requested 0 1000; free_completed 0 1000", "0: free 6K, used 512, free 2090496", 512,
          "2/2/2/0", "2096640/2096640/2102272/5632"});
  with.free(z);
  expect({"free_requested 6K 512; free_completed 6K 512", "0: free 2M", 0, "0/2/2/2",
          "0/2096640/2102272/2102272"});
}

INSTANTIATE_TEST_SUITE_P(Releases, WorkedSequence,
                         testing::Combine(testing::ValuesIn(kReleases), testing::Bool()));

}  // namespace
}  // namespace cachalot_test
