// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned memory and threads: many that allocate, use and free, and the one that completes frees in the background. Made
// for the thread sanitizer.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "../test_seed.h"
#include "pinned_fixture.h"

namespace cachalot {
namespace {

constexpr Stream kStream = 0x50;

// ---- The background thread

class PinnedBackgroundThread : public PinnedTest {};

TEST_F(PinnedBackgroundThread, CompletesFreesWithoutARequest) {
  open({.use_background_threads = true});
  const Address block = waiting_block(4096, kStream);
  EXPECT_NE(allocate(4096), block);
  finish(kStream);
  EXPECT_TRUE(comes([&] { return active() == 1; }));
  EXPECT_EQ(allocate(4096), block);
}

TEST_F(PinnedBackgroundThread, GivesBackWhatIsTooLargeForTheCache) {
  open({.use_background_threads = true, .max_cached_size = 1024});
  waiting_block(4096, kStream);
  finish(kStream);
  EXPECT_TRUE(comes([&] { return obtained() == 0; }));
}

TEST_F(PinnedBackgroundThread, StartsWithTheRequestForMemoryThatFollowsTheOption) {
  open();
  const Address block = waiting_block(4096, kStream);
  allocator->free(allocate(8192));
  allocator->set_settings({.use_background_threads = true});
  finish(kStream);
  allocator->free(allocate(8192));  // a hit: nobody looks at events
  calls();
  EXPECT_EQ(active(), 1);
  const Address other = allocate(4096);
  EXPECT_NE(other, block);
  EXPECT_TRUE(comes([&] { return active() == 1; }));
  EXPECT_EQ(allocate(4096), block);
}

TEST_F(PinnedBackgroundThread, GoesOnBehindAFailure) {
  open({.use_background_threads = true});
  waiting_block(4096, kStream);
  fail(SimCall::kEventQuery, 3);
  EXPECT_TRUE(comes([&] { return !kept.differences().empty(); }));
  finish(kStream);
  EXPECT_TRUE(comes([&] { return active() == 0; }));
  EXPECT_EQ(kept.differences().size(), 1u);  // however often it was asked
}

TEST_F(PinnedBackgroundThread, EndsWithTheAllocatorWhateverWaits) {
  for (int i = 0; i < 20; i++) {
    open({.use_background_threads = true});
    waiting_block(4096, kStream);
    if (i % 2 == 0) finish(kStream);
    close();
  }
}

TEST_F(PinnedBackgroundThread, StandsBesideAnEndThatWaits) {
  open({.use_background_threads = true, .max_cached_size = 1024});
  for (int i = 0; i < 200; i++) {
    waiting_block(4096, kStream);
    allocate(16);
    if (i % 3 == 0) finish(kStream);
    allocator->free_all();
    ASSERT_TRUE(comes([&] { return active() == 0; }));
  }
}

// ---- Many threads

constexpr int kThreads = 8;

struct Written {
  Address address = 0;
  uint64_t size = 0;
  char pattern = 0;
};

// Blocks on their way from the threads that made them to those that free them.
class WrittenBlocks {
 public:
  void put(const Written& block) {
    const std::lock_guard lock(lock_);
    blocks_.push_back(block);
  }
  Written take() {
    const std::lock_guard lock(lock_);
    if (blocks_.empty()) return {};
    const Written block = blocks_.back();
    blocks_.pop_back();
    return block;
  }

 private:
  std::mutex lock_;
  std::vector<Written> blocks_;
};

class PinnedThreads : public PinnedTest {
 protected:
  PinnedThreads() : PinnedTest(2) { driver.machine().log_calls(0); }

  void TearDown() override {
    EXPECT_EQ(allocator->check(), "");
    allocator.reset();
    EXPECT_EQ(pinned_bytes(), 0u);
  }

  Written write(uint64_t size, char pattern, Stream current = 0) {
    const Written block{allocator->allocate(size, 0, current), size, pattern};
    std::memset(reinterpret_cast<void*>(block.address), pattern, size);
    return block;
  }
  // What was written is still there: nobody else has had the block.
  void free(const Written& block) {
    if (block.address == 0) return;
    const auto* const bytes = reinterpret_cast<const char*>(block.address);
    for (uint64_t i = 0; i < block.size; i++) {
      if (bytes[i] == block.pattern) continue;
      ADD_FAILURE() << "byte " << i << " of " << block.size << " was written by another";
      break;
    }
    allocator->free(block.address);
    freed++;
  }

  // A window of blocks, from which one is freed for each that is made; some go over to others.
  void work(int thread, Random& random, int rounds) {
    std::array<Written, 8> window{};
    for (int i = 0; i < rounds; i++) {
      Written& place = random.pick(window);
      free(std::exchange(place, {}));
      place = write(random.of_any_magnitude(1, 8 * KiB), static_cast<char>(random.bits()),
                    static_cast<Stream>(thread));
      use(place, random);
      if (random.one_in(3)) exchange.put(std::exchange(place, {}));
      if (random.one_in(3)) free(exchange.take());
      if (random.one_in(64)) look(random);
    }
    for (const Written& block : window) free(block);
  }
  void use(const Written& block, Random& random) {
    for (; random.one_in(2);) {
      const int device = static_cast<int>(random.below(2));
      const Stream stream = 0x50 + 0x10 * random.below(4);
      if (random.one_in(2)) driver.machine().queue_work(device, stream);
      allocator->record_stream(block.address, device, stream);
      if (random.one_in(2)) driver.machine().finish_oldest(device, stream);
    }
  }
  void look(Random& random) {
    switch (random.below(5)) {
      case 0:
        return allocator->empty_cache();
      case 1:
        return allocator->reset_peak_stats();
      case 2:
        EXPECT_GE(allocator->stats().allocations.current, 0);
        return;
      case 3:
        return allocator->set_settings(settings_of(random.below(4)));
      default:
        EXPECT_EQ(allocator->check(), "");
    }
  }
  static PinnedSettings settings_of(uint64_t choice) {
    PinnedSettings settings;
    settings.use_background_threads = choice == 1;
    settings.use_cuda_host_register = choice == 2;
    if (choice == 3) settings.max_cached_size = KiB;
    return settings;
  }

  void run(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) {
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "thread " << i << ": " << error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void expect_all_comes_back() {
    for (Written block = exchange.take(); block.address != 0; block = exchange.take()) free(block);
    EXPECT_EQ(allocator->live_blocks(), 0u);
    for (const int device : {0, 1}) driver.machine().finish_device(device);
    // The background thread may have a block in its hands.
    EXPECT_TRUE(comes([&] {
      allocator->empty_cache();
      return active() == 0 && obtained() == 0;
    }));
    const PinnedStats stats = allocator->stats();
    EXPECT_EQ(stats.active_requests.allocated, freed);
    EXPECT_EQ(stats.active_requests.freed, freed);
    EXPECT_EQ(stats.active_bytes.allocated, stats.active_bytes.freed);
    EXPECT_EQ(stats.allocations.allocated, stats.allocations.freed);
    EXPECT_EQ(stats.allocated_bytes.current, 0);
    EXPECT_EQ(stats.allocate_times.count, stats.free_times.count);
    EXPECT_EQ(pinned_bytes(), 0u);
  }

  WrittenBlocks exchange;
  std::atomic<int64_t> freed{0};
};

TEST_F(PinnedThreads, FreeEachOthersBlocks) {
  const uint64_t seed = test_seed();
  open();
  run([&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    work(thread, random, 1500);
  });
  expect_all_comes_back();
}

TEST_F(PinnedThreads, FreeEachOthersBlocksBesideTheBackgroundThread) {
  const uint64_t seed = test_seed(8);
  open({.use_background_threads = true, .max_cached_size = 2 * KiB});
  run([&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    work(thread, random, 1000);
  });
  expect_all_comes_back();
}

TEST_F(PinnedThreads, BeginAndEndPoolsWhileOthersAllocate) {
  const uint64_t seed = test_seed(9);
  open();
  run([&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    const auto own = static_cast<Stream>(thread);
    for (uint64_t i = 1; i <= 20; i++) {
      const PoolId id{static_cast<uint64_t>(thread) * 1000 + i, 0};
      if (thread % 2 == 0) allocator->pool_begin(id, [=](Stream stream) { return stream == own; });
      work(thread, random, 40);
      if (thread % 2 != 0) continue;
      allocator->pool_end(id);
      allocator->pool_release(id);
    }
  });
  for (Written block = exchange.take(); block.address != 0; block = exchange.take()) free(block);
  for (const int device : {0, 1}) driver.machine().finish_device(device);
  EXPECT_TRUE(comes([&] {
    allocator->empty_cache();
    return active() == 0 && obtained() == 0;
  }));
  EXPECT_EQ(allocator->live_blocks(), 0u);
  EXPECT_EQ(allocator->stats().active_requests.freed, freed);
}

}  // namespace
}  // namespace cachalot
