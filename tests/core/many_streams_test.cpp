// SPDX-License-Identifier: MIT OR Apache-2.0
// What thousands of streams cost: instructions beside few, and memory.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "../instructions.h"
#include "../sanitizers.h"
#include "alloc/allocator.h"
#include "base/units.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr uint64_t kStreams = 20000;

Stream handle(uint64_t stream) { return 0x7f0000000000 + stream * 64; }

class ManyStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (CACHALOT_HEAP_IS_SANITIZED) GTEST_SKIP() << "a sanitizer has a cost of its own";
  }
  static std::unique_ptr<Allocator> make(const std::string& config = "") {
    AllocatorOptions options;
    SimOptions sim;
    sim.capacity = 4096 * GiB;
    options.driver = std::make_shared<SimDriver>(sim);
    options.config = config;
    return std::make_unique<Allocator>(options);
  }
  static void pair(Allocator& allocator, Stream stream) {
    allocator.free(allocator.allocate(1000, 0, stream));
  }
  static void use(Allocator& allocator, uint64_t streams) {
    for (uint64_t i = 0; i < streams; i++) pair(allocator, handle(i));
  }
  // Of the process, without what the heap keeps.
  static uint64_t resident() {
    malloc_trim(0);
    FILE* const file = std::fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    EXPECT_EQ(std::fscanf(file, "%*s %lu", &pages), 1);
    std::fclose(file);
    return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  static uint64_t instructions_beside(uint64_t streams,
                                      const std::function<void(Allocator&)>& calls) {
    return cachalot_test::instructions_of([&] {
      std::shared_ptr<Allocator> allocator = make();
      use(*allocator, streams);
      return [=] { calls(*allocator); };
    });
  }
  // Pairs on streams in turn, or what else, at the peak.
  static void expect_no_dearer(const std::function<void(Allocator&)>& calls) {
    const uint64_t few = instructions_beside(100, calls);
    const uint64_t many = instructions_beside(5000, calls);
    EXPECT_LE(many, few + few / 4) << few << " instructions beside 100 streams";
  }
};

TEST_F(ManyStreams, DoNotMakeHitsDearerThatGoFromOneToTheNext) {
  expect_no_dearer([](Allocator& allocator) {
    for (uint64_t i = 0; i < 10; i++) pair(allocator, handle(i * 7));
  });
}

TEST_F(ManyStreams, DoNotMakeStatisticsDearer) {
  expect_no_dearer([](Allocator& allocator) { allocator.stats(0); });
}

TEST_F(ManyStreams, DoNotMakeAMissDearer) {
  expect_no_dearer([](Allocator& allocator) { allocator.allocate(20 * MiB, 0, handle(3)); });
}

TEST_F(ManyStreams, TakeLessThanFourKibibytesEachAndLeaveLittle) {
  const auto allocator = make();
  use(*allocator, 100);
  const uint64_t before = resident();
  use(*allocator, kStreams);
  EXPECT_LE(resident() - before, kStreams * 4 * KiB);
  allocator->empty_cache(0, {}, {});
  EXPECT_LE(resident(), before + kStreams * KiB);
}

// A segment reserves nine eighths of the device, 4.5 TiB here.
TEST_F(ManyStreams, OfExpandableSegmentsTakeMemoryForWhatIsMapped) {
  const auto allocator = make("expandable_segments:True");
  use(*allocator, 1);
  const uint64_t before = resident();
  use(*allocator, 20);
  EXPECT_LE(resident() - before, 20 * 32 * KiB);
}

TEST_F(ManyStreams, ThatChangeTakeNoMoreMemory) {
  const auto allocator = make();
  const auto change = [&](uint64_t times) {
    for (uint64_t i = 0; i < times; i++) {
      pair(*allocator, handle(i % 2));
      allocator->empty_cache(0, {}, {});
    }
  };
  change(1000);
  const uint64_t before = resident();
  change(100000);
  EXPECT_LE(resident(), before + 256 * KiB);
}

}  // namespace
}  // namespace cachalot
