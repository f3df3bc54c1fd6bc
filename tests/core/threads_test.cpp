// SPDX-License-Identifier: MIT OR Apache-2.0
// Many threads at one allocator: nothing breaks, every number is exact. Made for the thread
// sanitizer.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../test_seed.h"
#include "alloc/allocator.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr int kThreads = 8;

// Errors of a thread are those of the test.
void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; i++) {
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

// What threads did, added up.
struct Tally {
  std::atomic<int64_t> blocks{0};
  std::atomic<int64_t> requested{0};
};

// Blocks on their way from the threads that made them to those that free them.
class Exchange {
 public:
  void put(Address address) {
    std::lock_guard guard(lock_);
    addresses_.push_back(address);
  }
  Address take() {
    std::lock_guard guard(lock_);
    if (addresses_.empty()) return 0;
    const Address address = addresses_.back();
    addresses_.pop_back();
    return address;
  }

 private:
  std::mutex lock_;
  std::vector<Address> addresses_;
};

class Threads : public testing::Test {
 protected:
  void open(const std::string& config, uint64_t capacity = 64 * GiB, int devices = 1) {
    driver_ = std::make_shared<SimDriver>(SimOptions{capacity, devices});
    AllocatorOptions options;
    options.driver = driver_;
    options.config = config;
    allocator_ = std::make_unique<Allocator>(options);
  }

  Address allocate(uint64_t size, Stream stream, int device = 0) {
    const Address address = allocator_->allocate(size, device, stream);
    tally_.blocks++;
    tally_.requested += static_cast<int64_t>(size);
    return address;
  }

  // A window of blocks, from which one is freed for each that is made; some go over to others.
  void work(Random& random, Stream stream, int rounds, Exchange* exchange, int device = 0) {
    std::array<Address, 16> window{};
    for (int i = 0; i < rounds; i++) {
      Address& place = random.pick(window);
      allocator_->free(place);
      place = allocate(random.of_any_magnitude(1, 8 * MiB), stream, device);
      if (random.one_in(4)) exchange->put(std::exchange(place, 0));
      if (random.one_in(4)) allocator_->free(exchange->take());
    }
    for (const Address address : window) allocator_->free(address);
  }

  // All is free, and the statistics are what the threads know.
  void expect_exact_sums(Exchange* exchange) {
    while (const Address address = exchange->take()) allocator_->free(address);
    ASSERT_EQ(allocator_->check(), "");
    ASSERT_EQ(allocator_->live_blocks(), 0u);
    int64_t blocks = 0;
    int64_t requested = 0;
    for (int device = 0; device < allocator_->device_count(); device++) {
      const Stats stats = allocator_->stats(device);
      blocks += stats.allocation.all.allocated;
      requested += stats.requested_bytes.all.allocated;
      EXPECT_EQ(stats.allocation.all.freed, stats.allocation.all.allocated);
      EXPECT_EQ(stats.allocated_bytes.all.freed, stats.allocated_bytes.all.allocated);
      EXPECT_EQ(stats.requested_bytes.all.freed, stats.requested_bytes.all.allocated);
    }
    EXPECT_EQ(blocks, tally_.blocks);
    EXPECT_EQ(requested, tally_.requested);
  }

  std::shared_ptr<SimDriver> driver_;
  std::unique_ptr<Allocator> allocator_;
  Tally tally_;
};

TEST_F(Threads, WithStreamsOfTheirOwnFreeEachOthersBlocks) {
  const uint64_t seed = test_seed();
  open("");
  Exchange exchange;
  run_threads(kThreads, [&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    work(random, static_cast<Stream>(thread), 1500, &exchange);
  });
  expect_exact_sums(&exchange);
}

TEST_F(Threads, CanShareOneStream) {
  const uint64_t seed = test_seed();
  open("");
  Exchange exchange;
  run_threads(kThreads, [&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    work(random, 0, 1500, &exchange);
  });
  expect_exact_sums(&exchange);
}

TEST_F(Threads, CanUseSeveralDevicesAndFreeWithoutNamingOne) {
  const uint64_t seed = test_seed();
  open("", 16 * GiB, 4);
  Exchange exchange;
  run_threads(kThreads, [&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    work(random, 0, 1000, &exchange, thread % 4);
  });
  expect_exact_sums(&exchange);
}

// Blocks are handed out while what was idle around them goes.
TEST_F(Threads, TrimAndReportWhileOthersAllocate) {
  for (const char* config : {"", "expandable_segments:True"}) {
    tally_.blocks = tally_.requested = 0;
    const uint64_t seed = test_seed();
    open(config, 16 * GiB);
    Exchange exchange;
    std::atomic<int> working{kThreads - 1};
    run_threads(kThreads, [&](int thread) {
      Random random(seed + static_cast<uint64_t>(thread));
      if (thread > 0) {
        work(random, static_cast<Stream>(thread % 3), 500, &exchange);
        working--;
        return;
      }
      for (uint64_t now = 0; working > 0; now++) {
        uint64_t released = 0;
        allocator_->trim(0, {random.below(GiB), random.below(3), now}, &released);
        const Report report = allocator_->report({.size = 1 * MiB});
        ASSERT_EQ(report.reserved, report.allocated + report.pending + report.cached);
      }
    });
    expect_exact_sums(&exchange);
    uint64_t released = 0;
    allocator_->trim(0, {}, &released);
    EXPECT_EQ(allocator_->stats(0).reserved_bytes.all.current, 0);
  }
}

TEST_F(Threads, CanUseExpandableSegments) {
  const uint64_t seed = test_seed();
  open("expandable_segments:True", 8 * GiB);
  Exchange exchange;
  run_threads(kThreads, [&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    work(random, static_cast<Stream>(thread % 3), 500, &exchange);
  });
  expect_exact_sums(&exchange);
}

// The driver is slow, and a miss does not keep others from their hits; some misses fail.
TEST_F(Threads, MissAtTheSameTimeWhereTheLockIsReleased) {
  const uint64_t seed = test_seed();
  open("release_lock_on_cudamalloc:True", 256 * MiB);
  driver_->machine().set_latency(static_cast<uint32_t>(SimCall::kAllocate), 20'000);
  std::atomic<int> failures{0};
  run_threads(kThreads, [&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    std::array<Address, 4> window{};
    for (int i = 0; i < 1000; i++) {
      Address& place = random.pick(window);
      allocator_->free(std::exchange(place, 0));
      try {
        place = allocator_->allocate(random.between(1, 24 * MiB), 0, static_cast<Stream>(thread));
      } catch (const Error& error) {
        ASSERT_EQ(error.status(), Status::kOutOfMemory);
        failures++;
      }
    }
    for (const Address address : window) allocator_->free(address);
  });
  EXPECT_EQ(allocator_->check(), "");
  EXPECT_EQ(allocator_->stats(0).num_ooms, failures);
  allocator_->empty_cache(0);
  EXPECT_EQ(allocator_->stats(0).reserved_bytes.all.current, 0);
}

TEST_F(Threads, WaitForRecordedStreamsOnly) {
  const uint64_t seed = test_seed();
  open("");
  Exchange exchange;
  run_threads(kThreads, [&](int thread) {
    Random random(seed + static_cast<uint64_t>(thread));
    const auto stream = static_cast<Stream>(thread);
    for (int i = 0; i < 400; i++) {
      const Address address = allocate(random.of_any_magnitude(1, 8 * MiB), stream);
      const Stream other = random.below(kThreads);
      driver_->machine().queue_work(0, other);
      allocator_->record_stream(address, other);
      exchange.put(address);
      allocator_->free(exchange.take());
      driver_->machine().finish_oldest(0, random.below(kThreads));
    }
  });
  while (const Address address = exchange.take()) allocator_->free(address);
  allocator_->empty_cache(0);
  expect_exact_sums(&exchange);
  EXPECT_EQ(allocator_->stats(0).active.all.current, 0);
  EXPECT_EQ(allocator_->stats(0).reserved_bytes.all.current, 0);
}

// ---- Others look on and interfere

class Crowd : public Threads {
 protected:
  // Runs again and again until all workers are done.
  void add_helper(std::function<void(Random&)> body) { helpers_.push_back(std::move(body)); }

  void run(const std::string& config, const std::function<void(Random&, int)>& worker) {
    const uint64_t seed = test_seed();
    open(config);
    std::atomic<int> workers{4};
    const auto helper_count = static_cast<int>(helpers_.size());
    run_threads(4 + helper_count, [&](int thread) {
      Random random(seed + static_cast<uint64_t>(thread));
      if (thread < 4) {
        worker(random, thread);
        workers--;
        return;
      }
      do {
        helpers_[static_cast<size_t>(thread - 4)](random);
        std::this_thread::yield();
      } while (workers > 0);
    });
  }

 private:
  std::vector<std::function<void(Random&)>> helpers_;

 protected:
  std::atomic<int> ready_{0};
};

// Every reader sees one moment: kinds add up, nothing is above its peak, sums fit.
void expect_one_moment(const Stats& stats) {
  for (const StatArray* stat :
       {&stats.allocation, &stats.allocated_bytes, &stats.active, &stats.requested_bytes,
        &stats.inactive_split_bytes, &stats.reserved_bytes, &stats.segment}) {
    EXPECT_EQ(stat->all.current, stat->small_pool.current + stat->large_pool.current);
    EXPECT_EQ(stat->all.current, stat->all.allocated - stat->all.freed);
    EXPECT_GE(stat->all.peak, stat->all.current);
  }
  EXPECT_EQ(stats.allocation.all.current, stats.active.all.current);
  EXPECT_GE(stats.reserved_bytes.all.current, stats.active_bytes.all.current);
}

TEST_F(Crowd, ThreadsThatReadSeeOneMoment) {
  Exchange exchange;
  add_helper([&](Random&) { expect_one_moment(allocator_->stats(0)); });
  add_helper([&](Random&) { allocator_->reset_peak_stats(0); });
  add_helper([&](Random&) {
    const Snapshot snapshot = allocator_->snapshot({}, false);
    for (const SegmentRow& segment : snapshot.segments) {
      uint64_t size = 0;
      for (size_t i = 0; i < segment.block_count; i++) {
        size += snapshot.blocks[segment.first_block + i].size;
      }
      ASSERT_EQ(size, segment.total_size);
    }
  });
  add_helper([&](Random&) { ASSERT_EQ(allocator_->check(), ""); });
  add_helper([&](Random& random) {
    const Address address = allocate(random.between(1, MiB), 3);
    ASSERT_EQ(allocator_->block(address).address, address);
    allocator_->free(address);
  });
  run("", [&](Random& random, int thread) {
    work(random, static_cast<Stream>(thread), 6000, &exchange);
  });
  expect_exact_sums(&exchange);
}

// A thread has a block of stream 8 only while it has one of stream 9, and 200 or 201 of stream 10.
TEST_F(Crowd, SnapshotsShowOneMomentWhileHitsGoOn) {
  constexpr int kCrowd = 200;
  add_helper([&](Random&) {
    const bool was_full = ready_ == 4;
    const Snapshot snapshot = allocator_->snapshot({}, false);
    const bool is_full = was_full && ready_ == 4;
    std::array<int, 16> live{};
    Address end = 0;
    for (const SegmentRow& segment : snapshot.segments) {
      ASSERT_GE(segment.address, end);
      end = segment.address;
      bool was_free = false;
      for (size_t i = 0; i < segment.block_count; i++) {
        const BlockRow& block = snapshot.blocks[segment.first_block + i];
        ASSERT_EQ(block.address, end);
        end += block.size;
        const bool is_used = block.state == BlockState::kAllocated;
        ASSERT_TRUE(is_used || !was_free) << "two neighbours are free";
        was_free = !is_used;
        live.at(segment.stream) += is_used ? 1 : 0;
      }
      ASSERT_EQ(end, segment.address + segment.total_size);
    }
    EXPECT_LE(live[8], live[9]);
    EXPECT_LE(live[10], 4 * (kCrowd + 1));
    EXPECT_GE(live[10], is_full ? 4 * kCrowd : 0);
  });
  run("", [&](Random& random, int) {
    std::array<Address, kCrowd> crowd{};
    for (Address& place : crowd) place = allocate(random.between(1, 4096), 10);
    ready_++;
    for (int i = 0; i < 4000; i++) {
      const Address outer = allocate(random.between(1, 8 * MiB), 9);
      const Address inner = allocate(random.between(1, 8 * MiB), 8);
      Address& place = random.pick(crowd);
      const Address next = allocate(random.between(1, 4096), 10);
      allocator_->free(std::exchange(place, next));
      allocator_->free(inner);
      allocator_->free(outer);
    }
    ready_ = -100;
    for (const Address address : crowd) allocator_->free(address);
  });
  Exchange none;
  expect_exact_sums(&none);
}

// Settings, history, observers and the cache change under the workers' hands.
TEST_F(Crowd, ThreadsThatInterfereBreakNothing) {
  Exchange exchange;
  std::atomic<uint64_t> observed{0};
  add_helper([&](Random& random) {
    static const char* const kConfigs[] = {"",
                                           "max_split_size_mb:24",
                                           "expandable_segments:True",
                                           "expandable_segments:False",
                                           "roundup_power2_divisions:4",
                                           "release_lock_on_cudamalloc:True"};
    allocator_->configure(random.pick(kConfigs));
    allocator_->update_config("garbage_collection_threshold:0.9");
  });
  add_helper([&](Random& random) {
    HistoryOptions options;
    options.enabled = random.one_in(2);
    options.max_entries = random.below(1000);
    options.context = random.one_in(2) ? ContextLevel::kNever : ContextLevel::kAll;
    allocator_->record_history(options);
    allocator_->snapshot({}, true);
  });
  add_helper([&](Random&) {
    const uint64_t trace = allocator_->observe_trace([&](const TraceEntry&) { observed++; });
    const uint64_t callback =
        allocator_->register_free_memory_callback([&](int, uint64_t) { return ++observed == 0; });
    allocator_->detach(trace);
    allocator_->detach(callback);
  });
  add_helper([&](Random& random) {
    allocator_->empty_cache(0);
    allocator_->set_memory_fraction(0, random.one_in(2) ? 1 : 0.9);
  });
  add_helper([&](Random&) {
    const PoolId pool = allocator_->new_pool_id(false);
    allocator_->pool_begin(0, pool, [](Stream stream) { return stream == 1; });
    allocator_->pool_end(0, pool);
    allocator_->pool_release(0, pool);
  });
  run("", [&](Random& random, int thread) {
    work(random, static_cast<Stream>(thread), 4000, &exchange);
  });
  EXPECT_EQ(allocator_->check(), "");
  expect_exact_sums(&exchange);
}

}  // namespace
}  // namespace cachalot
