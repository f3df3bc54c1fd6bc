// SPDX-License-Identifier: MIT OR Apache-2.0
// How much ordinary memory the allocator keeps for each live block.
//
// Counted is what the process takes from the system between an empty allocator and one with a
// million live blocks: its anonymous pages, as the kernel counts them. That is all there is: block
// objects, address tables, segments, free sets, what the heap adds to them, and the pages of tables
// that are touched only in part. The driver keeps nothing of a segment, and the addresses are held
// in memory that was touched before.
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <functional>
#include <iomanip>
#include <memory>
#include <string>
#include <vector>

#include "../sanitizers.h"
#include "../test_seed.h"
#include "alloc/allocator.h"
#include "device/sim_driver.h"
#include "process_memory.h"

namespace cachalot {
namespace {

constexpr double kGoal = 160;  // bytes for a block, where blocks average below 3.9 KiB

// Addresses one behind the other, and nothing to remember.
class ForgetfulDriver final : public SimDriver {
 public:
  DriverCode allocate(int, uint64_t size, Address* address) override {
    *address = next_;
    next_ += size;
    return kSuccess;
  }
  DriverCode free(int, Address) override { return kSuccess; }

 private:
  Address next_ = 0x700000000000;
};

struct Load {
  const char* name;
  size_t blocks;
  std::function<uint64_t(Random&)> size;
};

// Averages of live blocks. Bytes.
struct Cost {
  double size;
  double bookkeeping;
};

Cost measure(const Load& load) {
  Random random(test_seed());
  AllocatorOptions options;
  options.driver = std::make_shared<ForgetfulDriver>();
  std::vector<uint64_t> sizes(load.blocks);
  for (uint64_t& size : sizes) size = load.size(random);
  malloc_trim(0);
  const uint64_t before = anonymous_bytes();
  Allocator allocator(options);
  for (const uint64_t size : sizes) allocator.allocate(size, 0, 0);
  const uint64_t taken = anonymous_bytes() - before;
  const auto allocated = static_cast<double>(allocator.stats(0).allocated_bytes.all.current);
  EXPECT_EQ(allocator.live_blocks(), load.blocks);
  EXPECT_EQ(allocator.check(), "");
  allocator.free_all();
  const auto count = static_cast<double>(load.blocks);
  return {allocated / count, static_cast<double>(taken) / count};
}

uint64_t uniform(Random& random, uint64_t largest) { return random.between(512, largest); }

class Bookkeeping : public testing::TestWithParam<Load> {};

TEST_P(Bookkeeping, TakesNoMoreThanTheGoalWhereBlocksAreSmall) {
  if (CACHALOT_HEAP_IS_SANITIZED)
    GTEST_SKIP() << "a sanitizer keeps memory of its own for each allocation";
  const Cost cost = measure(GetParam());
  std::cout << std::fixed << std::setprecision(1) << GetParam().name << ": " << cost.bookkeeping
            << " bytes for a block of " << cost.size << " on average\n";
  RecordProperty("bytes_for_a_block", std::to_string(cost.bookkeeping));
  if (cost.size < 3.9 * 1024) {
    EXPECT_LE(cost.bookkeeping, kGoal);
  }
  if (cost.size < 4096) {
    EXPECT_LE(cost.bookkeeping, kGoal + 2);
  }
}

// Large blocks are fewer, so that the test stays short.
constexpr size_t kMany = 1'000'000;
constexpr size_t kSome = 20'000;

const Load kLoads[] = {
    {"all_512", kMany, [](Random&) { return uint64_t{512}; }},
    {"uniform_to_4KiB", kMany, [](Random& random) { return uniform(random, 4 * KiB); }},
    {"all_3584", kMany, [](Random&) { return uint64_t{3584}; }},
    {"average_3900", kMany,
     [](Random& random) { return random.below(512) < 196 ? uint64_t{3584} : uint64_t{4096}; }},
    {"average_just_below_4KiB", kMany,
     [](Random& random) { return random.one_in(1000) ? uint64_t{3584} : uint64_t{4096}; }},
    {"uniform_to_8KiB", kMany, [](Random& random) { return uniform(random, 8 * KiB); }},
    {"uniform_to_32KiB", kMany, [](Random& random) { return uniform(random, 32 * KiB); }},
    {"all_64KiB", kSome, [](Random&) { return 64 * KiB; }},
    {"all_1MiB", kSome, [](Random&) { return MiB; }},
    {"all_2MiB", kSome, [](Random&) { return 2 * MiB; }},
    {"all_64MiB", kSome, [](Random&) { return 64 * MiB; }},
};

INSTANTIATE_TEST_SUITE_P(LiveBlocks, Bookkeeping, testing::ValuesIn(kLoads),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Bookkeeping, TakesNothingForStreamsWhoseRequestsTheDriverRefused) {
  if (CACHALOT_HEAP_IS_SANITIZED)
    GTEST_SKIP() << "a sanitizer keeps memory of its own for each allocation";
  AllocatorOptions options;
  options.driver = std::make_shared<SimDriver>(SimOptions{MiB, 1});
  Allocator allocator(options);
  const auto refuse = [&](Stream first, Stream end) {
    for (Stream stream = first; stream < end; stream++)
      EXPECT_THROW(allocator.allocate(512, 0, stream), Error);
  };
  refuse(0, 1000);
  const uint64_t before = anonymous_bytes();
  refuse(1000, 50000);
  EXPECT_LE(anonymous_bytes(), before + MiB);
}

}  // namespace
}  // namespace cachalot
