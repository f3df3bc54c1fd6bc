// SPDX-License-Identifier: MIT OR Apache-2.0
// Real threads at the C interface: what one thread would see is seen by many, every number is
// exact, and misuse is told apart. Made for the thread sanitizer too.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../test_seed.h"
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

using cachalot::Random;

constexpr int kThreads = 8;  // more than there are cores

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; i++) threads.emplace_back([&, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

// An allocator over `sim` without the auditor, which would give the calls an order.
class Allocator {
 public:
  explicit Allocator(const std::string& config, int32_t release = CACHALOT_RELEASE_2_15,
                     uint64_t capacity = 64 * GiB) {
    cachalot_sim_options sim = {};
    sim.struct_size = sizeof sim;
    sim.capacity = capacity;
    EXPECT_EQ(cachalot_sim_create(&sim, &driver_, nullptr), CACHALOT_OK);
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = config.c_str();
    options.release = release;
    options.no_caching = -1;
    options.shareable_pages = -1;
    EXPECT_EQ(cachalot_allocator_create(&options, &allocator_, nullptr), CACHALOT_OK);
  }
  ~Allocator() {
    cachalot_error error = CACHALOT_ERROR_INIT;
    EXPECT_EQ(cachalot_check(allocator_, &error), CACHALOT_OK) << error.message;
    EXPECT_EQ(cachalot_allocator_destroy_all(allocator_, &error), CACHALOT_OK) << error.message;
    cachalot_driver_destroy(driver_);
  }
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  operator cachalot_allocator*() const { return allocator_; }
  cachalot_driver* driver() const { return driver_; }

  // 0: out of memory.
  cachalot_address allocate(uint64_t size, cachalot_stream stream) const {
    cachalot_address address = 0;
    const cachalot_status status =
        cachalot_allocate(allocator_, size, 0, stream, &address, nullptr);
    EXPECT_TRUE(status == CACHALOT_OK || status == CACHALOT_ERROR_OUT_OF_MEMORY);
    return address;
  }
  void free(cachalot_address address) const {
    EXPECT_EQ(cachalot_free(allocator_, address, nullptr), CACHALOT_OK);
  }
  cachalot_stats stats() const {
    cachalot_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(cachalot_get_stats(allocator_, 0, &stats, nullptr), CACHALOT_OK);
    return stats;
  }
  std::string numbers() const {
    const cachalot_stats all = stats();
    std::string text;
    const char* name = nullptr;
    int64_t value = 0;
    for (size_t i = 0;
         cachalot_stats_at(&all, CACHALOT_RELEASE_2_15, i, &name, &value) == CACHALOT_OK; i++)
      text += std::string(name) + " " + std::to_string(value) + "\n";
    return text;
  }

 private:
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
};

// ---- A token goes round: one thread acts at a time, so the outcome is that of one thread

// What is done, by whomever has the token; every choice is of one sequence.
class Token {
 public:
  Token(const Allocator& allocator, uint64_t seed) : allocator_(allocator), random_(seed) {}

  void act() {
    const auto stream = static_cast<cachalot_stream>(random_.below(4) * 16);
    const uint64_t choice = random_.below(100);
    if (choice < 50) {
      const cachalot_address address =
          allocator_.allocate(random_.of_any_magnitude(1, 32 * MiB), stream);
      story_.push_back(address);
      if (address != 0) live_.push_back(address);
    } else if (choice < 90) {
      if (!live_.empty()) free_one();
    } else if (choice < 95) {
      if (live_.empty()) return;
      cachalot_record_stream(allocator_, random_.pick(live_), stream, nullptr);
      cachalot_sim_queue_work(allocator_.driver(), 0, stream, nullptr);
    } else if (choice < 98) {
      cachalot_sim_finish_stream(allocator_.driver(), 0, stream, nullptr);
    } else if (choice < 99) {
      cachalot_reset_peak_stats(allocator_, 0, nullptr);
    } else {
      cachalot_empty_cache(allocator_, nullptr);
    }
  }
  const std::vector<cachalot_address>& story() const { return story_; }

 private:
  void free_one() {
    const size_t index = random_.below(live_.size());
    allocator_.free(live_[index]);
    live_[index] = live_.back();
    live_.pop_back();
  }

  const Allocator& allocator_;
  Random random_;
  std::vector<cachalot_address> live_;
  std::vector<cachalot_address> story_;
};

constexpr int kActs = 4000;

void act_alone(Token* token) {
  for (int i = 0; i < kActs; i++) token->act();
}

// Who is next is chosen anew for every act.
void act_in_turns(Token* token, uint64_t seed) {
  std::mutex lock;
  std::condition_variable turned;
  Random random(seed);
  int next = 0;
  int done = 0;
  run_threads(kThreads, [&](int thread) {
    std::unique_lock guard(lock);
    for (;;) {
      turned.wait(guard, [&] { return next == thread || done == kActs; });
      if (done == kActs) return;
      // A few acts on end, so that a thread meets its own traces too.
      for (uint64_t i = random.between(1, 8); i > 0 && done < kActs; i--, done++) token->act();
      next = static_cast<int>(random.below(kThreads));
      turned.notify_all();
    }
  });
}

TEST(ThreadsInTurns, GetTheAddressesAndStatisticsOfOneThread) {
  const uint64_t seed = cachalot::test_seed();
  for (const int32_t release : kReleases) {
    for (const char* config : {"", "expandable_segments:True", "max_split_size_mb:24",
                               "release_lock_on_cudamalloc:True", "backend:cudaMallocAsync"}) {
      const Allocator alone(config, release, GiB);
      const Allocator shared(config, release, GiB);
      Token one(alone, seed);
      Token many(shared, seed);
      act_alone(&one);
      act_in_turns(&many, seed);
      ASSERT_EQ(one.story(), many.story()) << config;
      ASSERT_EQ(alone.numbers(), shared.numbers()) << config;
    }
  }
}

// ---- Phases: all rise, meet, and all fall

TEST(ThreadsInPhases, ReachExactlyThePeakOfTheirSums) {
  constexpr int64_t kBlocks = 16;
  constexpr int kPhases = 24;
  const Allocator allocator("");
  std::barrier together(kThreads);
  run_threads(kThreads, [&](int thread) {
    std::vector<cachalot_address> blocks;
    for (int phase = 0; phase < kPhases; phase++) {
      // Every other phase has streams that were never seen before.
      const auto stream =
          static_cast<cachalot_stream>(thread + (phase % 2 == 0 ? 0 : 100 * (phase + 1)));
      const uint64_t size = (phase % 3 == 0 ? 512 : 2 * MiB) * static_cast<uint64_t>(phase % 4 + 1);
      for (int i = 0; i < kBlocks; i++) blocks.push_back(allocator.allocate(size - 9, stream));
      together.arrive_and_wait();
      for (const cachalot_address block : blocks) allocator.free(block);
      blocks.clear();
      together.arrive_and_wait();
      if (thread == 0) {
        const cachalot_stats stats = allocator.stats();
        const auto bytes = static_cast<int64_t>(size);
        const bool is_small = phase % 3 == 0;
        const cachalot_stat& kind =
            is_small ? stats.allocation.small_pool : stats.allocation.large_pool;
        EXPECT_EQ(stats.allocation.all.peak, kThreads * kBlocks);
        EXPECT_EQ(kind.peak, kThreads * kBlocks);
        EXPECT_EQ(stats.allocated_bytes.all.peak, kThreads * kBlocks * bytes);
        EXPECT_EQ(stats.active_bytes.all.peak, kThreads * kBlocks * bytes);
        EXPECT_EQ(stats.requested_bytes.all.peak, kThreads * kBlocks * (bytes - 9));
        EXPECT_EQ(stats.allocation.all.current, 0);
        EXPECT_EQ(stats.allocation.all.allocated, kThreads * kBlocks);
        cachalot_reset_peak_stats(allocator, 0, nullptr);
        cachalot_reset_accumulated_stats(allocator, 0, nullptr);
      }
      together.arrive_and_wait();
    }
  });
}

// What was freed before another thread was told to go on never adds to that thread's blocks.
TEST(ThreadsThatSignalEachOther, KeepTheOrderOfRealTimeInThePeak) {
  for (const bool same_stream : {false, true}) {
    const Allocator allocator("");
    std::barrier turn(2);
    run_threads(2, [&](int thread) {
      for (int round = 0; round < 400; round++) {
        if (round % 2 == thread)
          allocator.free(allocator.allocate(GiB, same_stream ? 0 : static_cast<uint64_t>(thread)));
        turn.arrive_and_wait();
      }
    });
    const cachalot_stats stats = allocator.stats();
    EXPECT_EQ(stats.allocated_bytes.all.peak, static_cast<int64_t>(GiB));
    EXPECT_EQ(stats.requested_bytes.all.peak, static_cast<int64_t>(GiB));
    EXPECT_EQ(stats.allocation.all.peak, 1);
    EXPECT_EQ(stats.allocation.all.allocated, 400);
    EXPECT_EQ(stats.reserved_bytes.all.current, static_cast<int64_t>(same_stream ? GiB : 2 * GiB));
  }
}

// A block wanders: the thread that frees it is never the one that made it.
TEST(ThreadsThatSignalEachOther, KeepTheOrderAlsoWhereTheOtherOneFrees) {
  const Allocator allocator("");
  std::barrier turn(2);
  cachalot_address block = 0;
  run_threads(2, [&](int thread) {
    for (int round = 0; round < 400; round++) {
      if (round % 2 == thread) {
        if (block != 0) allocator.free(block);
        block = allocator.allocate(GiB, static_cast<cachalot_stream>(thread));
      }
      turn.arrive_and_wait();
    }
  });
  allocator.free(block);
  const cachalot_stats stats = allocator.stats();
  EXPECT_EQ(stats.allocated_bytes.all.peak, static_cast<int64_t>(GiB));
  EXPECT_EQ(stats.allocation.all.peak, 1);
  EXPECT_EQ(stats.allocation.all.current, 0);
}

// Two threads a stream, peaks reset and the cache emptied all the time: nearly every miss is a new peak
// and has to ask the others before it may count, while its neighbours in the segment come and go.
void run_at_the_peak(const char* config) {
  const uint64_t seed = cachalot::test_seed();
  const Allocator allocator(config);
  constexpr int kWorkers = 16;
  std::atomic<int> workers{kWorkers};
  run_threads(kWorkers + 1, [&](int thread) {
    if (thread == kWorkers) {
      while (workers > 0) {
        cachalot_empty_cache(allocator, nullptr);
        cachalot_reset_peak_stats(allocator, 0, nullptr);
      }
      return;
    }
    Random random(seed + static_cast<uint64_t>(thread));
    std::array<cachalot_address, 4> window{};
    for (int i = 0; i < 5000; i++) {
      cachalot_address& place = random.pick(window);
      if (place != 0) allocator.free(place);
      place = allocator.allocate(random.between(1, 4 * MiB), static_cast<uint64_t>(thread % 2));
    }
    for (const cachalot_address block : window)
      if (block != 0) allocator.free(block);
    workers--;
  });
  EXPECT_EQ(allocator.stats().allocation.all.current, 0);
}

TEST(ThreadsAtThePeak, CountEverySplit) { run_at_the_peak(""); }
TEST(ThreadsAtThePeak, CountEveryExpandableBlock) { run_at_the_peak("expandable_segments:True"); }

// ---- Misuse by other threads

TEST(ThreadsThatFreeTheSameBlock, AreToldApart) {
  for (const char* config : {"", "expandable_segments:True", "backend:cudaMallocAsync"}) {
    const Allocator allocator(config);
    for (int round = 0; round < 40; round++) {
      std::array<cachalot_address, 8> blocks{};
      for (size_t i = 0; i < blocks.size(); i++)
        blocks[i] = allocator.allocate(MiB + i * 512, i % 3 * 16);
      std::atomic<int> freed{0};
      std::atomic<int> refused{0};
      std::barrier start(4);
      run_threads(4, [&](int) {
        start.arrive_and_wait();
        for (const cachalot_address block : blocks) {
          const cachalot_status status = cachalot_free(allocator, block, nullptr);
          status == CACHALOT_OK ? freed++ : refused++;
          EXPECT_TRUE(status == CACHALOT_OK || status == CACHALOT_ERROR_INVALID_ARGUMENT);
        }
      });
      ASSERT_EQ(freed, static_cast<int>(blocks.size()));
      ASSERT_EQ(refused, 3 * static_cast<int>(blocks.size()));
    }
  }
}

// Workers live their lives; others throw addresses at the allocator that are foreign, stale or in
// the middle of blocks, while yet others give segments back. No worker loses a block.
void run_among_hostile_frees(const char* config) {
  const uint64_t seed = cachalot::test_seed();
  const Allocator allocator(config);
  // No live block begins in the upper half of a worker's addresses as hostile ones name them.
  std::array<std::atomic<cachalot_address>, 64> seen{};
  std::atomic<int> workers{4};
  std::atomic<uint64_t> refused{0};
  run_threads(kThreads, [&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    if (thread < 4) {
      std::array<cachalot_address, 8> window{};
      for (int i = 0; i < 4000; i++) {
        cachalot_address& place = random.pick(window);
        if (place != 0) allocator.free(place);
        place = allocator.allocate(random.of_any_magnitude(1024, 16 * MiB),
                                   static_cast<cachalot_stream>(thread));
        seen[random.below(seen.size())] = place;
      }
      for (const cachalot_address block : window)
        if (block != 0) allocator.free(block);
      workers--;
      return;
    }
    do {
      // Not a multiple of 512: inside a block, behind one, or in memory that is given back.
      const cachalot_address address = seen[random.below(seen.size())];
      const cachalot_address wrong = address + random.between(1, 511);
      if (cachalot_free(allocator, wrong, nullptr) == CACHALOT_ERROR_INVALID_ARGUMENT) refused++;
      EXPECT_EQ(cachalot_free(allocator, random.bits() | 1, nullptr),
                CACHALOT_ERROR_INVALID_ARGUMENT);
      cachalot_block block = {};
      block.struct_size = sizeof block;
      cachalot_get_block(allocator, address, &block, nullptr);
      cachalot_record_stream(allocator, wrong, 1, nullptr);
      if (thread == 4) cachalot_empty_cache(allocator, nullptr);
    } while (workers > 0);
  });
  EXPECT_GT(refused, 0u);
  const cachalot_stats stats = allocator.stats();
  EXPECT_EQ(stats.allocation.all.current, 0);
  EXPECT_EQ(stats.allocated_bytes.all.current, 0);
}

TEST(ThreadsAmongHostileFrees, KeepTheirBlocks) { run_among_hostile_frees(""); }
TEST(ThreadsAmongHostileFrees, KeepTheirExpandableBlocks) {
  run_among_hostile_frees("expandable_segments:True");
}

// Stale addresses that are good ones again by then: whoever frees wins, and both know who did.
TEST(ThreadsWithStaleAddresses, FreeEachHandOutExactlyOnce) {
  const uint64_t seed = cachalot::test_seed();
  const Allocator allocator("");
  std::array<std::atomic<cachalot_address>, 32> shared{};
  std::atomic<int64_t> made{0};
  std::atomic<int64_t> freed{0};
  run_threads(kThreads, [&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    for (int i = 0; i < 4000; i++) {
      const cachalot_address old = random.pick(shared);  // stays there: others find it stale
      if (old != 0 && cachalot_free(allocator, old, nullptr) == CACHALOT_OK) freed++;
      if (random.one_in(2)) continue;
      const cachalot_address address = allocator.allocate(random.of_any_magnitude(1, 4 * MiB),
                                                          static_cast<cachalot_stream>(thread % 3));
      made++;
      const cachalot_address lost = random.pick(shared).exchange(address);
      if (lost != 0 && cachalot_free(allocator, lost, nullptr) == CACHALOT_OK) freed++;
      if (thread == 0 && random.one_in(64)) cachalot_empty_cache(allocator, nullptr);
    }
  });
  const cachalot_stats stats = allocator.stats();
  EXPECT_EQ(stats.allocation.all.allocated, made);
  EXPECT_EQ(stats.allocation.all.freed, freed);
  EXPECT_EQ(stats.allocation.all.current, made - freed);
}

}  // namespace
}  // namespace cachalot_test
