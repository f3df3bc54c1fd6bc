// SPDX-License-Identifier: MIT OR Apache-2.0
// cachalot_trim: what goes, in which order, and since when memory counts as idle (trim.h).
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "../test_seed.h"
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kOther = 0x10;
constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);

struct Goal {
  uint64_t now = 0;
  uint64_t min_idle = 0;
  uint64_t keep = 0;
  int32_t device = 0;
};

cachalot_status try_trim(SimAllocator& with, const Goal& goal, uint64_t* released) {
  return cachalot_trim_at(with.get(), goal.device, goal.keep, goal.min_idle, goal.now, released,
                          with.error());
}

// Gives the MiB that were given back.
uint64_t trim(SimAllocator& with, const Goal& goal) {
  uint64_t released = 77;
  const uint64_t before = with.reserved(goal.device);
  with.ok(try_trim(with, goal, &released));
  EXPECT_EQ(before - with.reserved(goal.device), released);
  return released / MiB;
}

// ---- What goes

TEST(Trim, GivesEveryFreeSegmentBackIfNoIdleTimeIsAskedFor) {
  for (const int32_t release : kReleases) {
    SimAllocator with({.release = release});
    with.cache({40, 60});
    with.free(with.allocate(512));
    EXPECT_EQ(trim(with, {}), 102);
    EXPECT_EQ(with.layout(), "");
  }
}

TEST(Trim, KeepsSegmentsThatAreUsedInPart) {
  SimAllocator with;
  const cachalot_address used = with.allocate(512);
  with.cache({40});
  EXPECT_EQ(trim(with, {}), 40);
  EXPECT_EQ(with.layout(), "0: used 512, free 2096640");
  with.free(used);
}

TEST(Trim, StopsOnceNoMoreThanTheBytesToKeepAreReserved) {
  SimAllocator with;
  const cachalot_address used = with.allocate(30 * MiB);
  with.cache({40, 50, 60});
  EXPECT_EQ(trim(with, {.keep = 180 * MiB}), 0);
  EXPECT_EQ(trim(with, {.keep = 180 * MiB - 1}), 40) << "a segment goes as a whole";
  EXPECT_EQ(trim(with, {.keep = 80 * MiB}), 110);
  EXPECT_EQ(with.reserved(), 30 * MiB);
  with.free(used);
}

TEST(Trim, LooksAtOneDeviceOnly) {
  SimAllocator with({.device_count = 2});
  with.free(with.allocate(40 * MiB, 0, 0));
  with.free(with.allocate(60 * MiB, 0, 1));
  EXPECT_EQ(trim(with, {.device = 1}), 60);
  EXPECT_EQ(with.reserved(0), 40 * MiB);
  uint64_t released = 77;
  EXPECT_EQ(with.refused(try_trim(with, {.device = 2}, &released), CACHALOT_ERROR_INVALID_ARGUMENT),
            "device 2 does not exist; the driver has 2");
  EXPECT_EQ(released, 0);
  with.ok(try_trim(with, {.device = 0}, nullptr));
  EXPECT_EQ(with.reserved(0), 0);
}

TEST(Trim, TakesTheMonotonicClockIfItIsGivenNone) {
  SimAllocator with;
  with.cache({40});
  uint64_t released = 77;
  with.ok(cachalot_trim(with.get(), 0, 0, UINT64_MAX, &released, with.error()));
  EXPECT_EQ(released, 0);
  with.ok(cachalot_trim(with.get(), 0, 0, 1, &released, with.error()));
  EXPECT_EQ(released, 40 * MiB) << "a clock with nanoseconds has moved on by now";
}

// ---- Idle time

TEST(Trim, CountsIdleTimeFromTheFirstTrimThatSawTheMemoryFree) {
  SimAllocator with;
  with.cache({40});
  EXPECT_EQ(trim(with, {.now = 1000, .min_idle = 10}), 0);
  EXPECT_EQ(trim(with, {.now = 1009, .min_idle = 10}), 0);
  EXPECT_EQ(trim(with, {.now = 1010, .min_idle = 10}), 40);
}

TEST(Trim, GivesWhatHasBeenIdleLongestBackFirst) {
  SimAllocator with;
  const cachalot_address first = with.allocate(40 * MiB);
  const cachalot_address second = with.allocate(40 * MiB);
  const cachalot_address third = with.allocate(40 * MiB);
  with.free(second);
  trim(with, {.now = 10, .min_idle = 1000});
  with.free(third);
  trim(with, {.now = 20, .min_idle = 1000});
  with.free(first);
  with.watch();
  EXPECT_EQ(trim(with, {.now = 30}), 120);
  EXPECT_EQ(with.take_trace(), "segment_free 40M 40M; segment_free 80M 40M; segment_free 0 40M");
}

TEST(Trim, TakesEquallyIdleMemoryInTheOrderOfTheReleasesTies) {
  for (const int32_t release : kReleases) {
    SimAllocator with({.release = release});
    with.give_addresses({400 * MiB, 0, 200 * MiB});
    with.cache({60, 40, 50});
    with.watch();
    trim(with, {});
    EXPECT_EQ(with.take_trace(),
              release == CACHALOT_RELEASE_2_11
                  ? "segment_free 0 40M; segment_free 200M 50M; segment_free 400M 60M"
                  : "segment_free 400M 60M; segment_free 0 40M; segment_free 200M 50M");
  }
}

TEST(Trim, TakesAClockThatWentBackForNoIdleTime) {
  SimAllocator with;
  with.cache({40});
  trim(with, {.now = 1000, .min_idle = 1});
  EXPECT_EQ(trim(with, {.now = 500, .min_idle = 1}), 0);
  EXPECT_EQ(trim(with, {.now = 1001, .min_idle = 1}), 40);
}

// Idle for 10 at time 20, were it not for what happens at time 15.
template <class Use>
void expect_that_use_ends_the_idle_time(Use use, const SimSetup& setup = {}) {
  SimAllocator with(setup);
  with.cache({20});
  ASSERT_EQ(trim(with, {.now = 10, .min_idle = 10}), 0);
  use(with);
  EXPECT_EQ(trim(with, {.now = 20, .min_idle = 10}), 0);
  EXPECT_EQ(trim(with, {.now = 29, .min_idle = 10}), 0);
  EXPECT_EQ(trim(with, {.now = 30, .min_idle = 10}), 20);
}

TEST(Trim, AHandOutOfTheWholeSegmentEndsTheIdleTime) {
  expect_that_use_ends_the_idle_time(
      [](SimAllocator& with) { with.free(with.allocate(20 * MiB)); });
}

TEST(Trim, ASegmentThatIsUsedAtATrimIsNotIdle) {
  SimAllocator with;
  with.cache({20});
  trim(with, {.now = 10, .min_idle = 10});
  const cachalot_address block = with.allocate(20 * MiB);
  EXPECT_EQ(trim(with, {.now = 1000, .min_idle = 10}), 0);
  with.free(block);
  EXPECT_EQ(trim(with, {.now = 2000, .min_idle = 10}), 0);
  EXPECT_EQ(trim(with, {.now = 2010, .min_idle = 10}), 20);
}

TEST(Trim, AHandOutOfAPieceEndsTheIdleTime) {
  expect_that_use_ends_the_idle_time([](SimAllocator& with) { with.free(with.allocate(2 * MiB)); });
}

TEST(Trim, PiecesThatAreFreedInAnyOrderEndTheIdleTime) {
  std::vector<size_t> order{0, 1, 2};
  do {
    expect_that_use_ends_the_idle_time([&](SimAllocator& with) {
      const cachalot_address pieces[] = {with.allocate(2 * MiB), with.allocate(4 * MiB),
                                         with.allocate(3 * MiB)};
      for (const size_t i : order) with.free(pieces[i]);
    });
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Trim, AKeptFreeEndsTheIdleTime) {
  for (const uint64_t size : {2u, 20u}) {
    expect_that_use_ends_the_idle_time([&](SimAllocator& with) {
      for (int i = 0; i < 3; i++) with.free(with.allocate(size * MiB));
    });
  }
}

TEST(Trim, AFreeThatObserversSeeEndsTheIdleTime) {
  expect_that_use_ends_the_idle_time([](SimAllocator& with) {
    const cachalot_address block = with.allocate(2 * MiB);
    with.watch();
    with.free(block);
  });
}

TEST(Trim, AFreeWithRecordedStreamsEndsTheIdleTime) {
  expect_that_use_ends_the_idle_time([](SimAllocator& with) {
    const cachalot_address block = with.allocate(2 * MiB);
    with.record_stream(block, kOther);
    with.free(block);
  });
}

TEST(Trim, AnAllocationAtAnAddressEndsTheIdleTime) {
  expect_that_use_ends_the_idle_time([](SimAllocator& with) {
    cachalot_request request = {};
    request.struct_size = sizeof request;
    request.size = 2 * MiB;
    request.at = kFirstAddress + 4 * MiB;
    cachalot_address address = 0;
    with.ok(cachalot_allocate_with(with.get(), &request, &address, with.error()));
    with.free(address);
  });
}

TEST(Trim, MemoryThatWaitsForOtherStreamsIsNotIdleAndIsNotWaitedFor) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB);
  with.record_stream(block, kOther);
  with.queue_work(kOther);
  with.free(block);
  with.take_calls();
  EXPECT_EQ(trim(with, {.now = 10}), 0);
  EXPECT_EQ(with.take_calls().find("synchronize"), std::string::npos);
  with.finish_work(kOther);
  EXPECT_EQ(trim(with, {.now = 20, .min_idle = 10}), 0) << "free from this trim on";
  EXPECT_EQ(trim(with, {.now = 30, .min_idle = 10}), 20);
}

// ---- Private pools

TEST(Trim, KeepsTheMemoryOfPoolsThatAreInUse) {
  SimAllocator with;
  with.cache_in_pool(kPool, {40});
  EXPECT_EQ(trim(with, {}), 0);
  with.release_pool(kPool);
  EXPECT_EQ(trim(with, {}), 40);
  EXPECT_EQ(with.use_count(kPool), 0);
  EXPECT_EQ(cachalot_pool_use_count(with.get(), 0, kPool, nullptr, with.error()),
            CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(Trim, EndsAReleasedPoolOnceItsMemoryIsGone) {
  SimAllocator with;
  with.cache_in_pool(kPool, {40, 60});
  with.release_pool(kPool);
  trim(with, {.keep = 60 * MiB});
  with.refused(cachalot_pool_create(with.get(), 0, kPool, nullptr, with.error()),
               CACHALOT_ERROR_INVALID_STATE);
  trim(with, {});
  with.ok(cachalot_pool_create(with.get(), 0, kPool, nullptr, with.error()));
}

TEST(Trim, GivesMemoryOfAPoolsOwnSourceBackToIt) {
  static std::string freed;
  freed.clear();
  cachalot_pool_source source = {};
  source.struct_size = sizeof source;
  source.allocate = [](void*, uint64_t, int32_t, cachalot_stream) -> cachalot_address {
    return kFirstAddress + 1000 * MiB;
  };
  source.free = [](void*, cachalot_address address, uint64_t size, int32_t, cachalot_stream) {
    freed += address_text(address) + " " + size_text(size) + "; ";
  };
  SimAllocator with;
  cachalot_pool_options options = {};
  options.struct_size = sizeof options;
  options.source = &source;
  with.ok(cachalot_pool_create(with.get(), 0, kPool, &options, with.error()));
  with.begin_pool(kPool);
  with.cache({40});
  with.leave_pool(kPool);
  trim(with, {});
  EXPECT_EQ(freed, "");
  with.release_pool(kPool);
  with.take_calls();
  EXPECT_EQ(trim(with, {}), 40);
  EXPECT_EQ(freed, "1000M 40M; ");
  EXPECT_EQ(with.take_calls(), "");
}

// ---- Captures

TEST(Trim, DoesNothingWhileACaptureMayBeUnderWay) {
  for (const int32_t release : kReleases) {
    SimAllocator with({.release = release});
    with.cache({40});
    with.begin_capture(SimAllocator::graph_pool(1), kOther, 5);
    with.take_calls();
    EXPECT_EQ(trim(with, {}), 0);
    EXPECT_EQ(with.take_calls(), "");
    with.end_capture(SimAllocator::graph_pool(1), 5);
    EXPECT_EQ(trim(with, {}), 40);
  }
}

// ---- Expandable segments

const SimSetup kExpandable = {.config = "expandable_segments:True"};

TEST(Trim, UnmapsTheWholeFreePagesOfAnExpandableSegment) {
  SimAllocator with(kExpandable);
  const cachalot_address first = with.allocate(30 * MiB);
  const cachalot_address second = with.allocate(30 * MiB);
  const cachalot_address third = with.allocate(30 * MiB);
  with.free(second);
  with.watch();
  EXPECT_EQ(trim(with, {}), 20);
  EXPECT_EQ(with.take_trace(), "segment_unmap 40M 20M");
  with.free(first);
  with.free(third);
  EXPECT_EQ(with.reserved(), 80 * MiB);
  EXPECT_EQ(trim(with, {}), 80);
  EXPECT_EQ(with.layout(), "");
}

TEST(Trim, CountsTheIdleTimeOfExpandableMemoryByBlocks) {
  SimAllocator with(kExpandable);
  const cachalot_address first = with.allocate(20 * MiB);
  const cachalot_address second = with.allocate(20 * MiB);
  with.free(with.allocate(60 * MiB));
  trim(with, {.now = 10, .min_idle = 10});
  with.free(second);  // takes what was idle in
  EXPECT_EQ(trim(with, {.now = 20, .min_idle = 10}), 0);
  EXPECT_EQ(trim(with, {.now = 30, .min_idle = 10}), 80);
  with.free(first);
}

TEST(Trim, AHandOutOfAPieceEndsTheIdleTimeOfExpandableMemory) {
  SimAllocator with(kExpandable);
  with.cache({60});
  trim(with, {.now = 10, .min_idle = 10});
  const cachalot_address piece = with.allocate(2 * MiB);
  EXPECT_EQ(trim(with, {.now = 15, .min_idle = 10}), 0);
  with.free(piece);
  EXPECT_EQ(trim(with, {.now = 20, .min_idle = 10}), 0);
  EXPECT_EQ(trim(with, {.now = 30, .min_idle = 10}), 60);
}

// What a trim leaves mapped at the ends of a range is marked anew.
TEST(Trim, WhatIsLeftOfAnUnmappedRangeHasNoOldTime) {
  SimAllocator with(kExpandable);
  const cachalot_address first = with.allocate(10 * MiB);
  const cachalot_address second = with.allocate(50 * MiB);
  const cachalot_address third = with.allocate(10 * MiB);
  with.free(second);
  EXPECT_EQ(trim(with, {.now = 10}), 40);
  with.free(first);
  with.free(third);
  EXPECT_EQ(trim(with, {.now = 20, .min_idle = 10}), 0);
  EXPECT_EQ(trim(with, {.now = 30, .min_idle = 10}), 40);
}

// ---- The driver refuses

TEST(Trim, SaysWhatWasGivenBackBeforeTheDriverRefused) {
  SimAllocator with;
  with.cache({40, 50, 60});
  with.fail(CACHALOT_SIM_CALL_FREE, 999, 1);
  uint64_t released = 77;
  EXPECT_EQ(
      with.refused(try_trim(with, {.now = 10}, &released), CACHALOT_ERROR_DRIVER).substr(0, 12),
      "CUDA error: ");
  EXPECT_EQ(released, 40 * MiB);
  EXPECT_EQ(with.reserved(), 110 * MiB);
  const cachalot_address again = with.allocate(50 * MiB);
  EXPECT_EQ(again, kFirstAddress + 40 * MiB) << "it stayed in the cache";
  with.free(again);
  EXPECT_EQ(trim(with, {.now = 20}), 110);
}

TEST(Trim, KeepsTheIdleTimeOfWhatTheDriverRefused) {
  SimAllocator with;
  with.cache({40});
  trim(with, {.now = 10, .min_idle = 10});
  with.fail(CACHALOT_SIM_CALL_FREE, 999);
  uint64_t released = 77;
  with.refused(try_trim(with, {.now = 20, .min_idle = 10}, &released), CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(trim(with, {.now = 20, .min_idle = 10}), 40);
}

TEST(Trim, KeepsExpandablePagesOfAStreamThatTheDriverDoesNotWaitFor) {
  SimAllocator with(kExpandable);
  with.cache({40});
  with.fail(CACHALOT_SIM_CALL_SYNCHRONIZE, 999);
  uint64_t released = 77;
  with.refused(try_trim(with, {}, &released), CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(released, 0);
  EXPECT_EQ(trim(with, {}), 40);
}

// ---- Counters and history

// Both allocators do the same; one is emptied, one trimmed.
TEST(Trim, CountsAndRecordsWhatEmptyingTheCacheDoes) {
  for (const char* config : {"", "expandable_segments:True", "max_split_size_mb:30"}) {
    SimAllocator emptied(config);
    SimAllocator trimmed(config);
    for (SimAllocator* with : {&emptied, &trimmed}) {
      with->allocate(512);
      with->cache({60});
      with->watch();
    }
    emptied.empty_cache();
    EXPECT_EQ(trim(trimmed, {}), 60);
    EXPECT_EQ(trimmed.take_trace(), emptied.take_trace());
    cachalot_stats expected = emptied.stats();
    EXPECT_EQ(expected.num_sync_all_streams, 1);
    expected.num_sync_all_streams = 0;
    const cachalot_stats counted = trimmed.stats();
    EXPECT_EQ(std::memcmp(&counted, &expected, sizeof counted), 0);
  }
}

TEST(Trim, LeavesTheAgesOfGarbageCollectionAlone) {
  SimAllocator with("garbage_collection_threshold:0.5");
  with.set_limit(200 * MiB);
  with.allocate(2 * MiB, kOther);
  const cachalot_address older = with.allocate(40 * MiB);
  const cachalot_address newer = with.allocate(60 * MiB);
  with.free(older);
  for (int i = 0; i < 3; i++) with.free(with.allocate(2 * MiB, kOther));
  with.free(newer);
  with.fail(CACHALOT_SIM_CALL_FREE, 999);
  uint64_t released = 77;
  with.refused(try_trim(with, {}, &released), CACHALOT_ERROR_DRIVER);
  with.watch();
  with.allocate(70 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_free 20M 40M; segment_alloc 120M 70M; alloc 120M 70M")
      << "the older one alone is above the average";
}

// ---- The other backend

TEST(Trim, TrimsTheDriversPoolToTheBytesToKeep) {
  SimAllocator with("backend:cudaMallocAsync");
  EXPECT_EQ(trim(with, {}), 0) << "nothing was allocated yet";
  with.cache({40, 60});
  with.take_calls();
  uint64_t released = 77;
  with.ok(try_trim(with, {.keep = 70 * MiB}, &released));
  EXPECT_EQ(with.take_calls(), "pool_trim 70M");
  EXPECT_GT(released, 0);
  EXPECT_LE(with.reserved(), 70 * MiB);
  EXPECT_EQ(with.refused(try_trim(with, {.min_idle = 1}, &released), CACHALOT_ERROR_NOT_SUPPORTED),
            "backend:cudaMallocAsync does not know how long memory was idle: min_idle_ns has to be "
            "0");
}

// ---- Random operations against a model

// The segments as one who only sees the calls knows them.
struct ModelSegment {
  uint64_t size = 0;
  uint64_t live = 0;     // blocks, those that wait included
  bool is_used = false;  // since the last trim
  uint64_t idle_since = 0;
};

class TrimModel {
 public:
  explicit TrimModel(uint64_t seed) : random_(seed) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFailure(); i++) {
      const uint64_t choice = random_.below(100);
      if (choice < 40) {
        allocate();
      } else if (choice < 90) {
        free();
      } else if (choice < 94) {
        finish();
      } else {
        trim_and_compare();
      }
    }
    EXPECT_GT(given_back_, 0) << "something was idle";
    EXPECT_GT(left_, 0) << "something was not";
  }

 private:
  struct Live {
    cachalot_address address;
    cachalot_address base;
  };

  void allocate() {
    const uint64_t size = random_.of_any_magnitude(1, 40 * MiB);
    const cachalot_address address = with_.allocate(size, random_.below(2) * kOther);
    cachalot_address base = 0;
    uint64_t segment_size = 0;
    with_.ok(cachalot_base_allocation(with_.get(), address, &base, &segment_size, with_.error()));
    complete();  // it came before the search
    ModelSegment& segment = segments_[base];
    segment.size = segment_size;
    segment.live++;
    segment.is_used = true;
    live_.push_back({address, base});
  }

  void free() {
    if (live_.empty()) return;
    const size_t at = random_.one_in(2) ? live_.size() - 1 : random_.below(live_.size());
    const Live block = live_[at];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
    const bool is_recorded = random_.one_in(20);
    if (is_recorded) {
      with_.queue_work(kThird);
      with_.record_stream(block.address, kThird);
      waiting_.push_back(block.base);
    }
    with_.free(block.address);
    if (!is_recorded) segments_[block.base].live--;
  }

  void finish() {
    with_.finish_work(kThird);
    done_.insert(done_.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }

  void complete() {
    for (const cachalot_address base : done_) {
      segments_[base].live--;
      segments_[base].is_used = true;
    }
    done_.clear();
  }

  void trim_and_compare() {
    now_ += random_.below(10);
    const uint64_t min_idle = random_.below(15);
    complete();
    uint64_t expected = 0;
    for (auto segment = segments_.begin(); segment != segments_.end();) {
      ModelSegment& s = segment->second;
      if (s.live == 0 && s.is_used) s.idle_since = now_;
      s.is_used = s.live != 0;
      const bool goes = s.live == 0 && now_ - s.idle_since >= min_idle;
      expected += goes ? s.size : 0;
      (goes ? given_back_ : left_) += s.live == 0 ? 1 : 0;
      segment = goes ? segments_.erase(segment) : std::next(segment);
    }
    uint64_t released = 77;
    with_.ok(try_trim(with_, {.now = now_, .min_idle = min_idle}, &released));
    EXPECT_EQ(released, expected);
    uint64_t reserved = 0;
    for (const auto& [base, segment] : segments_) reserved += segment.size;
    EXPECT_EQ(with_.reserved(), reserved);
  }

  static constexpr cachalot_stream kThird = 0x20;
  cachalot::Random random_;
  SimAllocator with_;
  std::vector<Live> live_;
  std::vector<cachalot_address> waiting_;  // the segments of blocks that wait
  std::vector<cachalot_address> done_;     // and of those whose work is done, not yet seen
  std::map<cachalot_address, ModelSegment> segments_;
  uint64_t now_ = 100;
  int given_back_ = 0;
  int left_ = 0;
};

TEST(Trim, GivesBackWhatAModelOfTheCallsSaysIsIdle) {
  const uint64_t seed = cachalot::test_seed();
  for (uint64_t i = 0; i < 8; i++) TrimModel(seed + i).run(4000);
}

// The same calls, and on one side trims that find nothing idle enough.
TEST(Trim, ThatGivesNothingBackChangesNoDecision) {
  for (const char* config : {"", "expandable_segments:True", "max_split_size_mb:30"}) {
    cachalot::Random random(cachalot::test_seed());
    SimAllocator plain(config);
    SimAllocator trimmed(config);
    std::vector<cachalot_address> live;
    for (int i = 0; i < 3000 && !HasFailure(); i++) {
      if (random.one_in(5)) {
        EXPECT_EQ(trim(trimmed, {.now = random.bits() / 2, .min_idle = UINT64_MAX}), 0);
      }
      if (live.empty() || random.one_in(2)) {
        const uint64_t size = random.of_any_magnitude(1, 40 * MiB);
        live.push_back(plain.allocate(size));
        EXPECT_EQ(trimmed.allocate(size), live.back());
      } else {
        std::swap(random.pick(live), live.back());
        plain.free(live.back());
        trimmed.free(live.back());
        live.pop_back();
      }
    }
    const cachalot_stats expected = plain.stats();
    const cachalot_stats counted = trimmed.stats();
    EXPECT_EQ(std::memcmp(&counted, &expected, sizeof counted), 0);
    EXPECT_EQ(trimmed.layout(), plain.layout());
    EXPECT_EQ(trimmed.requested_sizes(), plain.requested_sizes());
    EXPECT_EQ(trimmed.take_calls(), plain.take_calls());
  }
}

}  // namespace
}  // namespace cachalot_test
