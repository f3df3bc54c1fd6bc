// SPDX-License-Identifier: MIT OR Apache-2.0
// Statistics of a program that has handed out and freed more than 8 EiB.
#include "tenant_fixture.h"

namespace cachalot_test {
namespace {

constexpr uint64_t kWholeDevice = uint64_t{1} << 42;
constexpr uint64_t kRoundsTo2To63 = uint64_t{1} << 21;
constexpr int64_t kMore = 5;  // rounds behind 2^63 bytes
constexpr int64_t kExpected = kMore * static_cast<int64_t>(kWholeDevice);

SimSetup large_device() { return {.capacity = kWholeDevice, .check_every_call = false}; }

void expect_sums(const cachalot_stat& stat) {
  EXPECT_EQ(stat.current, 0);
  EXPECT_EQ(stat.peak, static_cast<int64_t>(kWholeDevice));
  EXPECT_EQ(stat.allocated, kExpected);
  EXPECT_EQ(stat.freed, kExpected);
}

TEST(SumsBehind8EiB, BeginAtZeroAgain) {
  SimAllocator with(large_device());
  for (uint64_t i = 0; i < kRoundsTo2To63 + kMore; i++) {
    cachalot_address address = 0;
    ASSERT_EQ(cachalot_allocate(with.get(), kWholeDevice, 0, 0, &address, nullptr), CACHALOT_OK);
    ASSERT_EQ(cachalot_free(with.get(), address, nullptr), CACHALOT_OK);
  }
  const cachalot_stats stats = with.stats();
  for (const cachalot_stat_array* array :
       {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    expect_sums(array->all);
    expect_sums(array->large_pool);
  }
  EXPECT_EQ(stats.allocation.all.allocated, static_cast<int64_t>(kRoundsTo2To63) + kMore);
}

TEST(SumsBehind8EiB, OfATenantBeginAtZeroAgain) {
  SimAllocator with(large_device());
  const TestTenant tenant(with, {.name = "a"});
  for (uint64_t i = 0; i < kRoundsTo2To63 + kMore; i++) {
    cachalot_address address = 0;
    ASSERT_EQ(
        cachalot_allocate_for(with.get(), tenant.get(), kWholeDevice, 0, 0, &address, nullptr),
        CACHALOT_OK);
    ASSERT_EQ(cachalot_free(with.get(), address, nullptr), CACHALOT_OK);
  }
  expect_sums(tenant.stats().allocated_bytes);
  expect_sums(tenant.stats().requested_bytes);
  expect_sums(with.stats().allocated_bytes.all);
}

}  // namespace
}  // namespace cachalot_test
