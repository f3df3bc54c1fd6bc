// SPDX-License-Identifier: MIT OR Apache-2.0
// What a hit costs beyond its instructions: no memory from the heap, no driver call.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "../sanitizers.h"
#include "../test_seed.h"
#include "alloc/allocator.h"
#include "device/sim_driver.h"

// The heap functions of this program count the calling thread's calls. What is behind them are the
// C library's own, under the names that it keeps for programs that replace the usual ones.
#if defined(__GLIBC__) && !CACHALOT_HEAP_IS_SANITIZED
#define CACHALOT_COUNTS_HEAP_CALLS 1

static thread_local uint64_t heap_calls = 0;

extern "C" {
void* __libc_malloc(size_t size) noexcept;
void* __libc_calloc(size_t count, size_t size) noexcept;
void* __libc_realloc(void* memory, size_t size) noexcept;
void* __libc_memalign(size_t alignment, size_t size) noexcept;
void __libc_free(void* memory) noexcept;

void* malloc(size_t size) noexcept {
  heap_calls++;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
  heap_calls++;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) noexcept {
  heap_calls++;
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  heap_calls++;
  return __libc_memalign(alignment, size);
}
void free(void* memory) noexcept {
  if (memory) heap_calls++;
  __libc_free(memory);
}
}
#endif

namespace cachalot {
namespace {

constexpr DriverCode kTold = 777;

class HitCost : public testing::Test {
 protected:
  HitCost() {
    AllocatorOptions options;
    options.driver = driver_;
    allocator_ = std::make_unique<Allocator>(options);
  }

  // Does it once to warm up, and once more with all eyes on it.
  void expect_no_cost(const std::function<void()>& calls) {
    calls();
    expect_no_driver_call(calls);
#ifdef CACHALOT_COUNTS_HEAP_CALLS
    const uint64_t before = heap_calls;
    calls();
    EXPECT_EQ(heap_calls - before, 0u);
#else
    GTEST_SKIP() << "a sanitizer has the heap: its calls are not counted";
#endif
  }

  // The very next call of any kind would fail, and none does.
  void expect_no_driver_call(const std::function<void()>& calls) {
    driver_->machine().log_calls(kLogEverything);
    driver_->machine().fail({kAllSimCalls, kTold, 0, 1});
    EXPECT_NO_THROW(calls());
    char buffer[256];
    EXPECT_EQ(driver_->machine().take_calls(buffer, sizeof buffer), 0u) << buffer;
    uint64_t ignored = 0;
    EXPECT_EQ(driver_->memory_info(0, &ignored, &ignored), kTold) << "a call was made before";
    driver_->machine().log_calls(0);
  }

  void pair(uint64_t size, Stream stream) {
    allocator_->free(allocator_->allocate(size, 0, stream));
  }

  std::shared_ptr<SimDriver> driver_ = std::make_shared<SimDriver>();
  std::unique_ptr<Allocator> allocator_;
};

#ifdef CACHALOT_COUNTS_HEAP_CALLS
TEST_F(HitCost, IsCountedForAllWaysToTheHeap) {
  const uint64_t before = heap_calls;
  // Clang leaves out a pair of new and delete whose memory nobody sees.
  void* volatile seen = std::malloc(100);
  std::free(seen);
  auto many = std::make_unique<std::array<char, 100>[]>(1);
  seen = many.get();
  many.reset();
  auto aligned = std::make_unique<std::array<std::max_align_t, 10>>();
  seen = aligned.get();
  std::string text(1000, 'x');
  seen = text.data();
  EXPECT_GE(heap_calls - before, 6u);
}
#endif

TEST_F(HitCost, IsNothingForPairsOfOneSize) {
  for (const uint64_t size : {uint64_t{1}, KiB, MiB, 3 * MiB, 64 * MiB}) {
    expect_no_cost([&] {
      for (int i = 0; i < 100; i++) pair(size, 0);
    });
  }
}

TEST_F(HitCost, IsNothingForPairsOfChangingSizesAndStreams) {
  expect_no_cost([&] {
    for (int i = 0; i < 100; i++) {
      for (const Stream stream : {0, 0x10, 0x20, 0x30}) {
        for (const uint64_t size : {512, 3000, 70000, 1 << 20, 5 << 20, 30 << 20}) {
          pair(size, stream);
        }
      }
    }
  });
}

// Blocks are split and merged, free lists grow long and empty again.
TEST_F(HitCost, IsNothingForAWindowOfBlocks) {
  const uint64_t seed = test_seed();
  for (const size_t window : {64, 2048}) {
    expect_no_cost([&] {
      static std::array<Address, 2048> blocks;
      Random random(seed);
      for (size_t i = 0; i < 4 * window; i++) {
        Address& place = blocks[random.below(window)];
        allocator_->free(place);
        place = allocator_->allocate(random.between(1, 4 * KiB), 0, 0);
      }
      for (Address& address : blocks) allocator_->free(std::exchange(address, 0));
    });
  }
}

TEST_F(HitCost, IsNothingForRisingAndFalling) {
  std::vector<Address> blocks(10000);
  expect_no_cost([&] {
    for (Address& address : blocks) address = allocator_->allocate(3000, 0, 0);
    for (size_t i = 0; i < blocks.size(); i += 2) allocator_->free(blocks[i]);
    for (size_t i = 1; i < blocks.size(); i += 2) allocator_->free(blocks[i]);
  });
}

TEST_F(HitCost, IsNothingForReadingStatistics) {
  pair(512, 0);
  expect_no_cost([&] {
    EXPECT_GE(allocator_->stats(0).allocation.all.allocated, 1);
    allocator_->reset_peak_stats(0);
  });
}

}  // namespace
}  // namespace cachalot
