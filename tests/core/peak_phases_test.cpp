// SPDX-License-Identifier: MIT OR Apache-2.0
// Peaks that are known beforehand, under threads (core/alloc/stats/peaks.h). Made for the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "../test_seed.h"
#include "alloc/allocator.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

class PeakPhases : public testing::TestWithParam<int> {
 protected:
  PeakPhases() {
    AllocatorOptions options;
    options.driver = std::make_shared<SimDriver>(SimOptions{256 * GiB, 1});
    allocator_ = std::make_unique<Allocator>(options);
  }

  int threads() const { return GetParam(); }
  int64_t peak(int64_t Stat::*value = &Stat::peak) const {
    return allocator_->stats(0).allocated_bytes.all.*value;
  }

  std::unique_ptr<Allocator> allocator_;
};

// One thread's blocks.
class Hill {
 public:
  Hill(Allocator& allocator, Stream stream) : allocator_(allocator), stream_(stream) {}

  void climb(Random& random, int64_t bytes) {
    while (bytes > 0) {
      const auto size = std::min<int64_t>(bytes, 512 * static_cast<int64_t>(random.between(1, 64)));
      blocks_.push_back(allocator_.allocate(static_cast<uint64_t>(size), 0, stream_));
      bytes -= size;
    }
  }
  // Up and down, never above what is there and `bytes` more.
  void tremble(Random& random, int64_t bytes) {
    for (int i = 0; i < 50; i++) {
      const uint64_t size = 512 * random.between(1, static_cast<uint64_t>(bytes / 512));
      const Address extra = allocator_.allocate(size, 0, stream_);
      if (!blocks_.empty() && random.one_in(4)) {
        Address& place = random.pick(blocks_);
        const uint64_t kept = allocator_.block(place).size;
        allocator_.free(extra);
        allocator_.free(place);
        place = allocator_.allocate(kept, 0, stream_);
      } else {
        allocator_.free(extra);
      }
    }
  }
  void descend() {
    for (const Address address : blocks_) allocator_.free(address);
    blocks_.clear();
  }

 private:
  Allocator& allocator_;
  Stream stream_;
  std::vector<Address> blocks_;
};

// In each phase all climb to a height known beforehand, and descend. The height is passed by nobody,
// and is reached at one moment: when all stand on top.
TEST_P(PeakPhases, AreExactWhenAllClimbAndDescendTogether) {
  const uint64_t seed = test_seed();
  const int count = threads();
  constexpr int kPhases = 40;
  std::atomic<int64_t> expected{0};
  std::barrier<> everybody(count);
  std::vector<std::thread> crew;
  for (int thread = 0; thread < count; thread++) {
    crew.emplace_back([&, thread] {
      Random shared(seed);  // the same for all
      Random own(seed + 1 + static_cast<uint64_t>(thread));
      for (int phase = 0; phase < kPhases; phase++) {
        // Now and then on a stream that is new.
        const auto stream = static_cast<Stream>(thread + 1 + (phase / 10) * 100);
        const bool is_reset = shared.one_in(4);
        const auto height = static_cast<int64_t>(512 * shared.between(64, 2048));
        Hill hill(*allocator_, stream);
        everybody.arrive_and_wait();
        if (thread == 0 && is_reset) {
          allocator_->reset_peak_stats(0);
          expected = 0;
        }
        everybody.arrive_and_wait();
        hill.climb(own, height - 64 * 512);
        hill.tremble(own, 64 * 512);
        everybody.arrive_and_wait();
        hill.climb(own, 64 * 512);
        everybody.arrive_and_wait();
        if (thread == 0) {
          expected = std::max<int64_t>(expected, height * count);
          EXPECT_EQ(peak(&Stat::current), height * count) << "phase " << phase;
          EXPECT_EQ(peak(), expected) << "phase " << phase;
        }
        everybody.arrive_and_wait();
        hill.descend();
        everybody.arrive_and_wait();
        if (thread == 0) {
          EXPECT_EQ(peak(&Stat::current), 0) << "phase " << phase;
          EXPECT_EQ(peak(), expected) << "phase " << phase;
        }
      }
    });
  }
  for (std::thread& member : crew) member.join();
  EXPECT_EQ(allocator_->check(), "");
}

// What one thread has freed before it tells another is not there any more when that one begins.
TEST_P(PeakPhases, KeepTheOrderOfCallsThatFollowEachOther) {
  const int count = threads();
  constexpr int kRounds = 600;
  std::atomic<int> turn{0};
  std::vector<std::thread> crew;
  for (int thread = 0; thread < count; thread++) {
    crew.emplace_back([&, thread] {
      for (int round = thread; round < kRounds; round += count) {
        for (int now = turn; now != round; now = turn) turn.wait(now);
        const Address address = allocator_->allocate(GiB, 0, static_cast<Stream>(thread));
        if (round % 3 == 0) allocator_->allocate(512, 0, static_cast<Stream>(thread));
        allocator_->free(address);
        turn = round + 1;
        turn.notify_all();
      }
    });
  }
  for (std::thread& member : crew) member.join();
  const int64_t small = 512 * (kRounds / 3);
  EXPECT_EQ(allocator_->stats(0).allocated_bytes.large_pool.peak, static_cast<int64_t>(GiB));
  EXPECT_EQ(allocator_->stats(0).allocated_bytes.small_pool.peak, small);
  allocator_->free_all();
}

INSTANTIATE_TEST_SUITE_P(Threads, PeakPhases, testing::Values(1, 2, 4, 16));

}  // namespace
}  // namespace cachalot
