// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pools/private_pools.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "heap_parts.h"

namespace cachalot {
namespace {

constexpr PoolId kFirst{1, 0};
constexpr PoolId kSecond{0, 2};

class NoMemory final : public PoolSource {
 public:
  Address allocate(uint64_t, int, Stream) override { return 0; }
  void free(Address, uint64_t, int, Stream) override {}
};

class PoolsOfADevice : public testing::Test {
 protected:
  static bool takes_all(Stream) { return true; }

  std::string remarks_;
  Rules rules_;
  Log log_{[this](LogLevel, const char* text) { remarks_ += text; }};
  HeapParts parts_;
  PrivatePools pools_{rules_, log_, parts_.flags};
};

// ---- Pools

// [core 17.2]
TEST_F(PoolsOfADevice, AreMadeOnceAndThenJoined) {
  EXPECT_EQ(pools_.find(kFirst), nullptr);
  pools_.create_or_join(kFirst, nullptr);
  PrivatePool* const pool = pools_.find(kFirst);
  pools_.create_or_join(kFirst, nullptr);
  EXPECT_EQ(pools_.find(kFirst), pool);
  EXPECT_EQ(pools_.use_count(kFirst), 2);
  EXPECT_THROW(pools_.use_count(kSecond), Error);
}

TEST_F(PoolsOfADevice, GetASourceOfMemoryOnlyWhenTheyAreMade) {
  pools_.create_or_join(kFirst, std::make_shared<NoMemory>());
  EXPECT_TRUE(has_source(pools_.find(kFirst)->small));
  EXPECT_THROW(pools_.create_or_join(kFirst, std::make_shared<NoMemory>()), Error);
  EXPECT_EQ(pools_.use_count(kFirst), 1);
}

// [core 17.5]
TEST_F(PoolsOfADevice, AreReleasableWhenTheirLastUseEnds) {
  pools_.create_or_join(kFirst, nullptr);
  pools_.create_or_join(kFirst, nullptr);
  pools_.release(kFirst);
  EXPECT_EQ(pools_.releasable(), std::vector<PoolId>());
  pools_.release(kFirst);
  EXPECT_EQ(pools_.releasable(), std::vector<PoolId>{kFirst});
  EXPECT_THROW(pools_.create_or_join(kFirst, nullptr), Error);
}

TEST_F(PoolsOfADevice, KeepTheirMemoryAfterOneReleaseTooMany) {
  pools_.create_or_join(kFirst, nullptr);
  pools_.release(kFirst);
  EXPECT_THROW(pools_.release(kFirst), Error);
  EXPECT_EQ(pools_.use_count(kFirst), -1);
  EXPECT_EQ(pools_.releasable(), std::vector<PoolId>());
  EXPECT_THROW(pools_.release(kSecond), Error);
}

TEST_F(PoolsOfADevice, GoWhenTheyHaveNeitherMemoryNorRequests) {
  pools_.create_or_join(kFirst, nullptr);
  PrivatePool& pool = *pools_.find(kFirst);
  pools_.release(kFirst);
  parts_.list_for(pool.small, 1);
  pool.requests_under_way = 1;
  pools_.destroy_if_empty(kFirst);
  EXPECT_NE(remarks_.find("U4"), std::string::npos) << remarks_;
  pool.small.lists.clear();
  pools_.destroy_if_empty(kFirst);
  EXPECT_NE(remarks_.find("U21"), std::string::npos) << remarks_;
  EXPECT_EQ(pools_.find(kFirst), &pool);
  pool.requests_under_way = 0;
  pools_.destroy_if_empty(kFirst);
  EXPECT_EQ(pools_.find(kFirst), nullptr);
  EXPECT_EQ(pools_.releasable(), std::vector<PoolId>());
}

// U4
TEST_F(PoolsOfADevice, AreRemarkedOnWhereTheReferenceStillHasThem) {
  pools_.create_or_join(kFirst, nullptr);
  pools_.find(kFirst)->driver_allocations = 1;
  pools_.release(kFirst);
  pools_.destroy_if_empty(kFirst);
  EXPECT_EQ(remarks_, "");
  pools_.create_or_join(kFirst, nullptr);
  EXPECT_NE(remarks_.find("U4"), std::string::npos) << remarks_;
  EXPECT_EQ(pools_.use_count(kFirst), 1);
}

// ---- Marks

// [core 17.8]
TEST_F(PoolsOfADevice, MayBeMarkedBeforeTheyExist) {
  pools_.set_no_split(kFirst);
  pools_.create_or_join(kFirst, nullptr);
  EXPECT_TRUE(pools_.find(kFirst)->small.no_split);
  EXPECT_TRUE(pools_.find(kFirst)->large.no_split);
}

TEST_F(PoolsOfADevice, LoseTheMarkWithTheirLastUse) {
  pools_.create(kFirst, {.no_split = true});
  pools_.release(kFirst);
  EXPECT_FALSE(pools_.find(kFirst)->large.no_split);
  pools_.destroy_if_empty(kFirst);
  pools_.create_or_join(kFirst, nullptr);
  EXPECT_FALSE(pools_.find(kFirst)->large.no_split);
}

TEST_F(PoolsOfADevice, KeptTheMarkInRelease211) {
  rules_ = rules_of(Release::k2_11);
  pools_.create(kFirst, {.no_split = true});
  pools_.release(kFirst);
  pools_.destroy_if_empty(kFirst);
  pools_.create_or_join(kFirst, nullptr);
  EXPECT_TRUE(pools_.find(kFirst)->large.no_split);
}

// [core 17.7]
TEST_F(PoolsOfADevice, ServeAsFallbackByTheirIdsAlone) {
  pools_.set_use_on_oom(kSecond, true);
  pools_.create(kFirst, {.use_on_oom = true});
  EXPECT_TRUE(pools_.is_used_on_oom(kSecond)) << "it need not exist";
  EXPECT_EQ(pools_.used_on_oom().size(), 2u);
  pools_.set_use_on_oom(kFirst, false);
  EXPECT_EQ(pools_.used_on_oom(), std::vector<PoolId>{kSecond});
}

TEST_F(PoolsOfADevice, HaveNoMarksWhereTheyCannotBeMade) {
  pools_.create_or_join(kFirst, nullptr);
  EXPECT_THROW(pools_.create(kFirst, {true, true, std::make_shared<NoMemory>()}), Error);
  EXPECT_FALSE(pools_.is_used_on_oom(kFirst));
  EXPECT_FALSE(pools_.find(kFirst)->small.no_split);
}

// ---- Routing [core 17.3]

TEST_F(PoolsOfADevice, GetTheRequestsOfTheNewestRouteThatTakesThem) {
  pools_.begin_routing(kFirst, takes_all);
  pools_.begin_routing(kSecond, [](Stream stream) { return stream == 2; });
  EXPECT_EQ(*pools_.route_of(1), kFirst);
  EXPECT_EQ(*pools_.route_of(2), kSecond);
  pools_.end_routing(kFirst);
  EXPECT_EQ(pools_.route_of(1), nullptr);
  EXPECT_EQ(*pools_.route_of(2), kSecond);
}

TEST_F(PoolsOfADevice, SetTheFlagAsLongAsThereIsARoute) {
  pools_.begin_routing(kFirst, takes_all);
  pools_.begin_routing(kSecond, takes_all);
  pools_.end_routing(kFirst);
  EXPECT_TRUE(parts_.flags.has(SlowPath::kRouting));
  EXPECT_FALSE(pools_.is_routed(kFirst));
  EXPECT_EQ(pools_.end_routing(kSecond).id, kSecond);
  EXPECT_TRUE(parts_.flags.none());
}

TEST_F(PoolsOfADevice, KeepTheUseOfARoutingThatIsRefused) {
  pools_.begin_routing(kFirst, takes_all);
  EXPECT_THROW(pools_.begin_routing(kFirst, takes_all), Error);
  EXPECT_EQ(pools_.use_count(kFirst), 2);
  pools_.end_routing(kFirst);
  EXPECT_THROW(pools_.end_routing(kFirst), Error);
}

}  // namespace
}  // namespace cachalot
