// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools with whole blocks: each block is an allocation of the driver, and the cache keeps its bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "../test_seed.h"
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);
constexpr cachalot_stream kOther = 0x10;

// Requests of all threads and streams go to the pool.
class WholeBlocks : public SimAllocator {
 public:
  explicit WholeBlocks(const SimSetup& setup = {}, uint32_t flags = 0) : SimAllocator(setup) {
    create_pool(kPool, CACHALOT_POOL_WHOLE_BLOCKS | flags);
    begin_pool(kPool, CACHALOT_ROUTE_ALL);
    take_calls();
  }
};

// What the driver takes for a request.
uint64_t driver_bytes(uint64_t size) {
  const uint64_t step = size > MiB ? 2 * MiB : 512;
  return (size + step - 1) / step * step;
}

// ---- Every block is an allocation of the driver

TEST(WholeBlock, IsAnAllocationOfItsClass) {
  for (const int32_t release : kReleases) {
    WholeBlocks with(SimSetup{.release = release});
    for (const uint64_t size : {uint64_t{1}, 1000 * KiB, 3 * MiB, 70 * MiB}) with.allocate(size);
    EXPECT_EQ(with.take_calls(), "malloc 512 0; malloc 1M 2M; malloc 4M 4M; malloc 72M 8M");
  }
}

TEST(WholeBlock, HasTheSizeOfItsClassWhateverRoundupSays) {
  WholeBlocks with(SimSetup{.config = "roundup_power2_divisions:1"});
  for (const uint64_t size : {5 * MiB, 70 * MiB, 700 * KiB}) with.allocate(size);
  EXPECT_EQ(with.take_calls(), "malloc 6M 0; malloc 72M 6M; malloc 704K 78M");
}

TEST(WholeBlock, IsTheWholeOfItsBaseAllocation) {
  WholeBlocks with;
  for (int i = 0; i < 3; i++) {
    const cachalot_address address = with.allocate(5 * KiB);
    cachalot_address base = 0;
    uint64_t size = 0;
    with.ok(cachalot_base_allocation(with.get(), address, &base, &size, with.error()));
    EXPECT_EQ(base, address);
    EXPECT_EQ(size, 5 * KiB);
  }
}

TEST(WholeBlock, IsNotMadeOfPages) {
  for (const bool is_serving : {false, true}) {
    SimSetup setup{.config = "expandable_segments:True"};
    if (is_serving)
      setup = {
          .policy = {.struct_size = sizeof(cachalot_policy), .policy = CACHALOT_POLICY_SERVING}};
    WholeBlocks with(setup);
    with.cache({4, 6});
    EXPECT_EQ(with.take_calls(), "malloc 4M 0; malloc 6M 4M");
    with.free(with.allocate(4 * MiB));
    EXPECT_EQ(with.take_calls(), "");
  }
}

// ---- Which requests a cached block serves

TEST(WholeBlock, ServesRequestsThatItExceedsByAQuarterAtMost) {
  WholeBlocks with;
  with.cache({10});
  EXPECT_EQ(with.block_size_for(10 * MiB), 10 * MiB);
  EXPECT_EQ(with.block_size_for(7 * MiB), 10 * MiB);
  EXPECT_EQ(with.block_size_for(6 * MiB), 6 * MiB);
}

TEST(WholeBlock, ServesRequestsWhateverMaxSplitSizeIs) {
  WholeBlocks with(SimSetup{.config = "max_split_size_mb:20"});
  with.cache({40});
  EXPECT_EQ(with.block_size_for(38 * MiB), 40 * MiB);
  with.cache({20});
  EXPECT_EQ(with.block_size_for(18 * MiB), 20 * MiB);
}

TEST(WholeBlock, ServesItsOwnStreamOnly) {
  WholeBlocks with;
  const cachalot_address block = with.allocate(4 * MiB);
  const cachalot_address large = with.allocate(80 * MiB);
  with.free(large);
  with.free(block);
  EXPECT_NE(with.allocate(4 * MiB, kOther), block);
  EXPECT_EQ(with.allocate(4 * MiB), block);
}

TEST(WholeBlock, ServesAnAddressOnlyFromItsBegin) {
  WholeBlocks with;
  with.cache({10});
  const auto allocate_at = [&](cachalot_address address, uint64_t size) {
    cachalot_request request = {};
    request.struct_size = sizeof request;
    request.size = size;
    request.at = address;
    cachalot_address out = 0;
    return cachalot_allocate_with(with.get(), &request, &out, with.error());
  };
  EXPECT_EQ(allocate_at(kFirstAddress + 2 * MiB, 8 * MiB), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(allocate_at(kFirstAddress, 2 * MiB), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(allocate_at(kFirstAddress, 8 * MiB), CACHALOT_OK);
  EXPECT_EQ(with.layout(kPool), "0: used 10M");
}

// ---- What goes back before the driver is asked

TEST(WholeBlocksBound, IsAQuarterMoreThanThePeak) {
  WholeBlocks with;
  with.cache({64});
  with.cache({16});
  EXPECT_EQ(with.reserved(), 80 * MiB);
  with.take_calls();
  with.cache({2});
  EXPECT_EQ(with.take_calls(), "free 0; malloc 2M 0");
  EXPECT_EQ(with.reserved(), 18 * MiB);
}

TEST(WholeBlocksBound, LetsTheLargestProductOfSizeAndAgeGoFirst) {
  for (const bool is_reused : {false, true}) {
    WholeBlocks with;
    with.cache({64});
    with.cache({10});
    for (int i = 0; i < 10 && is_reused; i++) with.free(with.allocate(64 * MiB));
    with.watch();
    with.allocate(12 * MiB);
    EXPECT_EQ(with.take_trace(), is_reused
                                     ? "segment_free 64M 10M; segment_alloc 64M 12M; alloc 64M 12M"
                                     : "segment_free 0 64M; segment_alloc 0 12M; alloc 0 12M");
  }
}

TEST(WholeBlocksBound, CountsTheMemoryOfAllStreams) {
  WholeBlocks with;
  with.cache({64}, kOther);
  with.cache({16});
  with.cache({8});
  EXPECT_EQ(with.layout(kPool), "0: free 8M | 64M: free 16M");
}

TEST(WholeBlocksBound, SparesBlocksThatStreamsStillUse) {
  WholeBlocks with;
  const cachalot_address block = with.allocate(64 * MiB);
  with.record_stream(block, kOther);
  with.queue_work(kOther);
  with.free(block);
  with.allocate(32 * MiB);
  EXPECT_EQ(with.layout(kPool), "0: pending 64M | 64M: used 32M");
  with.finish_work(kOther);
  with.allocate(32 * MiB);
  EXPECT_EQ(with.layout(kPool), "0: used 32M | 64M: used 32M");
}

TEST(WholeBlocksBound, SparesPinnedBlocksAndPools) {
  WholeBlocks with;
  const cachalot_address block = with.allocate(64 * MiB);
  with.ok(cachalot_pin(with.get(), block, 64 * MiB, with.error()));
  with.free(block);
  with.cache({32});
  EXPECT_EQ(with.reserved(), 96 * MiB);
  with.ok(cachalot_unpin(with.get(), block, 64 * MiB, with.error()));
  WholeBlocks pinned(SimSetup{}, CACHALOT_POOL_PINNED);
  pinned.cache({64});
  pinned.cache({32});
  EXPECT_EQ(pinned.reserved(), 96 * MiB);
}

TEST(WholeBlocksBound, SparesEverythingDuringACapture) {
  WholeBlocks with;
  with.cache({64});
  with.ok(cachalot_capture_begin(with.get(), 0, with.error()));
  with.cache({32});
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 96 * MiB);
  with.ok(cachalot_capture_end(with.get(), 0, with.error()));
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 0u);
}

// ---- When memory is short, and at the end

TEST(WholeBlocksCache, GoesBackBeforeARequestFails) {
  for (const int32_t release : kReleases) {
    WholeBlocks with(SimSetup{.release = release, .capacity = 100 * MiB});
    with.cache({72, 16});
    const cachalot_address block = with.allocate(64 * MiB);  // of 72
    EXPECT_EQ(with.try_allocate(32 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(with.layout(kPool), "0: used 72M");
    with.free(block);
    with.allocate(96 * MiB);
    EXPECT_EQ(with.layout(kPool), "0: used 96M");
    EXPECT_EQ(with.stats().num_ooms, 1);
  }
}

TEST(WholeBlocksCache, ThatIsPinnedHasItsReasonInReportsAndNoOptionForIt) {
  WholeBlocks with(SimSetup{.config = "max_split_size_mb:200", .capacity = 100 * MiB},
                   CACHALOT_POOL_PINNED);
  with.cache({72});
  const Outcome outcome = with.try_allocate(40 * MiB);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(outcome.message().find("the largest free block is 72.00 MiB."), std::string::npos)
      << outcome.message();
  cachalot_report_options options = {};
  options.struct_size = sizeof options;
  options.size = 40 * MiB;
  cachalot_report* report = nullptr;
  with.ok(cachalot_report_create(with.get(), &options, &report, with.error()));
  cachalot_report_reason reason = {};
  reason.struct_size = sizeof reason;
  with.ok(cachalot_report_get_reason(report, 0, &reason));
  EXPECT_EQ(reason.reason, CACHALOT_REASON_NOT_SPLIT);
  cachalot_report_destroy(report);
}

TEST(WholeBlocksCache, GoesBackBeforeARequestOfTheDefaultPoolFails) {
  WholeBlocks with(SimSetup{.capacity = 100 * MiB});
  with.cache({64});
  with.end_pool(kPool);
  with.allocate(80 * MiB);
  EXPECT_EQ(with.reserved(), 80 * MiB);
}

TEST(WholeBlocksCache, IsEmptiedAndTrimmedWhileThePoolIsInUse) {
  for (const int32_t release : kReleases) {
    WholeBlocks with(SimSetup{.release = release});
    with.cache({4});
    with.empty_cache();
    EXPECT_EQ(with.reserved(), 0u);
    with.cache({4});
    with.end_pool(kPool);  // a routing of 2.11 counts as a capture
    with.empty_pool(kPool);
    EXPECT_EQ(with.reserved(), 0u);
    with.begin_pool(kPool);
    with.cache({4});
    with.end_pool(kPool);
    with.ok(cachalot_trim(with.get(), 0, 0, 0, nullptr, with.error()));
    EXPECT_EQ(with.reserved(), 0u);
    EXPECT_EQ(with.use_count(kPool), 3);
  }
}

TEST(WholeBlocksCache, ServesTheDefaultPoolWhereItsPoolOptedIn) {
  WholeBlocks with(SimSetup{.capacity = 64 * MiB}, CACHALOT_POOL_USE_ON_OOM);
  with.cache({40});
  with.end_pool(kPool);
  const cachalot_address block = with.allocate(36 * MiB);
  EXPECT_EQ(with.layout(kPool), "0: used 40M");
  with.free(block);
  EXPECT_EQ(with.layout(kPool), "0: free 40M");
}

TEST(WholeBlocksCache, ForgetsItsMarksForCollectionsOfTheDefaultPool) {
  WholeBlocks with(SimSetup{.config = "garbage_collection_threshold:0.5"});
  for (int i = 0; i < 100; i++) with.free(with.allocate(20 * MiB));
  with.empty_cache();
  with.end_pool(kPool);
  with.cache({30, 40});
  with.set_limit(100 * MiB);
  with.watch();
  with.allocate(50 * MiB);
  EXPECT_EQ(with.take_trace(),
            "segment_free 0 30M; segment_free 30M 40M; segment_alloc 0 50M; alloc 0 50M");
}

// ---- How a pool gets whole blocks

TEST(SetWholeBlocks, NeedsAPoolWithoutMemory) {
  SimAllocator with;
  EXPECT_EQ(with.refused(cachalot_pool_set_whole_blocks(with.get(), 0, kPool, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "there is no pool with this id");
  with.cache_in_pool(kPool, {20});
  EXPECT_EQ(with.refused(cachalot_pool_set_whole_blocks(with.get(), 0, kPool, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "a pool that has memory already cannot be given whole blocks");
  cachalot_pool_options options = {};
  options.struct_size = sizeof options;
  options.flags = CACHALOT_POOL_WHOLE_BLOCKS;
  EXPECT_EQ(cachalot_pool_create(with.get(), 0, kPool, &options, with.error()),
            CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(with.use_count(kPool), 1);
}

TEST(SetWholeBlocks, MayBeRepeated) {
  SimAllocator with;
  with.create_pool(kPool);
  with.ok(cachalot_pool_set_whole_blocks(with.get(), 0, kPool, with.error()));
  with.begin_pool(kPool);
  with.allocate(3 * MiB);
  with.ok(cachalot_pool_set_whole_blocks(with.get(), 0, kPool, with.error()));
  with.create_pool(kPool, CACHALOT_POOL_WHOLE_BLOCKS);
  EXPECT_EQ(with.layout(kPool), "0: used 4M");
}

TEST(SetWholeBlocks, LastsAsLongAsThePool) {
  WholeBlocks with;
  with.cache({10});
  for (int i = 0; i < 2; i++) with.release_pool(kPool);
  with.allocate(8 * MiB);  // the routing is still there
  EXPECT_EQ(with.layout(kPool), "0: used 10M");
  with.end_pool(kPool);
}

// ---- Random requests

class RandomRequests {
 public:
  explicit RandomRequests(uint64_t seed) : random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps; i++) {
      if (live_.empty() || random_.below(100) < 52) {
        allocate();
      } else {
        free();
      }
      if (random_.one_in(50)) finish_work();
      // The bound: blocks in use are never more than a quarter larger than needed.
      ASSERT_LE(with_.reserved(), peak_ + peak_ / 4) << "step " << i;
    }
  }

 private:
  struct Live {
    cachalot_address address;
    bool is_recorded;
    uint64_t bytes;
  };

  void allocate() {
    const uint64_t size = random_.one_in(3)
                              ? random_.of_any_magnitude(1, 100 * MiB)
                              : 1000 * (random_.below(20) + 1) * (random_.below(9) + 1);
    const cachalot_stream stream = random_.below(3) * 0x10;
    in_use_ += driver_bytes(size);
    peak_ = std::max(peak_, in_use_);
    Live block{with_.allocate(size, stream), random_.one_in(8), driver_bytes(size)};
    cachalot_address base = 0;
    uint64_t base_size = 0;
    with_.ok(
        cachalot_base_allocation(with_.get(), block.address, &base, &base_size, with_.error()));
    ASSERT_EQ(base, block.address);
    ASSERT_LE(base_size, block.bytes + block.bytes / 4);
    if (block.is_recorded) {
      with_.record_stream(block.address, kUser);
      with_.queue_work(kUser);
    }
    live_.push_back(block);
  }
  void free() {
    const auto place = static_cast<size_t>(random_.below(live_.size()));
    const Live block = live_[place];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(place));
    with_.free(block.address);
    // Until its stream is done the library has to keep the memory.
    if (block.is_recorded) {
      waiting_ += block.bytes;
    } else {
      in_use_ -= block.bytes;
    }
  }
  // The library sees it at its next request.
  void finish_work() {
    with_.finish_work(kUser);
    in_use_ -= std::exchange(waiting_, 0);
    with_.free(with_.allocate(1));
  }

  static constexpr cachalot_stream kUser = 0x100;
  cachalot::Random random_;
  WholeBlocks with_;
  std::vector<Live> live_;
  uint64_t in_use_ = 0;
  uint64_t waiting_ = 0;
  uint64_t peak_ = 0;
};

TEST(WholeBlocksBound, HoldsForRandomRequests) { RandomRequests(cachalot::test_seed()).run(4000); }

}  // namespace
}  // namespace cachalot_test
