// SPDX-License-Identifier: MIT OR Apache-2.0
// What the reference's own tests ask of an allocator, in our words. The names in the comments are
// those of its tests.
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);

int64_t signed_bytes(uint64_t bytes) { return static_cast<int64_t>(bytes); }

// ---- Basic calls

// memory_allocation
TEST(UpstreamBasics, AllocatedMemoryGrowsAndReturns) {
  SimAllocator with;
  const uint64_t before = cachalot_memory_allocated(with.get(), 0);
  const cachalot_address block = with.allocate(1);
  EXPECT_GT(cachalot_memory_allocated(with.get(), 0), before);
  with.free(block);
  EXPECT_EQ(cachalot_memory_allocated(with.get(), 0), before);
}

// out_of_memory
TEST(UpstreamBasics, HugeRequestsFailWithTheirTexts) {
  SimAllocator with;
  EXPECT_TRUE(with.try_allocate(800000000 * GiB)
                  .message()
                  .starts_with("CUDA out of memory. Tried to allocate 800000000.00 GiB. GPU 0 has "
                               "a total capacity of"));
  EXPECT_NE(
      with.try_allocate(uint64_t{3} << 60).message().find("Tried to allocate more than 1EB memory"),
      std::string::npos);
  with.allocate(1000);
}

// out_of_memory_retry
TEST(UpstreamBasics, AFailedRequestSucceedsAfterAFree) {
  SimAllocator with(SimSetup{.capacity = GiB});
  with.allocate(2 * MiB);
  const cachalot_address half = with.allocate(GiB / 2);
  EXPECT_EQ(with.try_allocate(GiB / 2).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.free(half);
  with.allocate(GiB / 2);
}

// set_per_process_memory_fraction
TEST(UpstreamBasics, AFractionBoundsWhatCanBeAllocated) {
  SimAllocator with(SimSetup{.capacity = 8 * GiB});
  for (const double wrong : {-0.1, 2.0}) {
    with.refused(cachalot_set_memory_fraction(with.get(), 0, wrong, with.error()),
                 CACHALOT_ERROR_INVALID_ARGUMENT);
  }
  with.ok(cachalot_set_memory_fraction(with.get(), 0, 0.5, with.error()));
  with.free(with.allocate(8 * GiB * 499 / 1000));
  with.empty_cache();
  EXPECT_EQ(with.try_allocate(4 * GiB + 512).status, CACHALOT_ERROR_OUT_OF_MEMORY);
}

// record_stream
TEST(UpstreamBasics, ARecordedBlockIsReusedWhenTheWorkIsDone) {
  SimAllocator with;
  const cachalot_stream side = 0x10;
  const cachalot_address block = with.allocate(4 * MiB, side);
  with.queue_work(0);  // the main stream sleeps, then copies from the block
  with.record_stream(block, 0);
  with.free(block);
  const cachalot_address other = with.allocate(4 * MiB, side);
  EXPECT_NE(other, block);
  with.finish_work(0);
  with.allocate(512);
  EXPECT_EQ(with.allocate(4 * MiB, side), block);
}

// caching_allocator_record_stream_oom
TEST(UpstreamBasics, RecordedBlocksAreWaitedForBeforeMemoryRunsOut) {
  SimAllocator with(SimSetup{.capacity = 2 * GiB});
  for (int i = 0; i < 100; i++) {
    const cachalot_address block = with.allocate(160 * MiB);
    with.queue_work(0x10);
    with.record_stream(block, 0x10);
    with.free(block);
  }
  EXPECT_EQ(with.stats().num_ooms, 0);
}

// ---- Snapshots and history

std::vector<std::string> ring_actions(SimAllocator& with) {
  cachalot_snapshot* snapshot = with.take_snapshot();
  std::vector<std::string> actions;
  for (size_t i = 0; i < cachalot_snapshot_entry_count(snapshot, 0); i++) {
    cachalot_trace_entry entry = {};
    entry.struct_size = sizeof entry;
    with.ok(cachalot_snapshot_entry(snapshot, 0, i, &entry));
    actions.push_back(std::string(cachalot_action_name(entry.action)) + entry.metadata);
  }
  cachalot_snapshot_destroy(snapshot);
  return actions;
}

void record(SimAllocator& with, const char* skip_actions) {
  cachalot_history_options options = {};
  options.struct_size = sizeof options;
  options.enabled = 1;
  options.context = CACHALOT_CONTEXT_LEVEL_ALL;
  options.max_entries = 1000;
  options.clear = 1;
  options.skip_actions = skip_actions;
  with.ok(cachalot_record_history(with.get(), &options, with.error()));
}

// memory_snapshot
TEST(UpstreamHistory, EndsWithTheReleaseOfTheSegment) {
  for (const char* config : {"", "expandable_segments:True"}) {
    SimAllocator with(config);
    record(with, nullptr);
    with.free(with.allocate(4 * 512));
    with.empty_cache();
    EXPECT_EQ(ring_actions(with).back(), *config ? "segment_unmap" : "segment_free");
  }
}

// memory_snapshot skip_actions
TEST(UpstreamHistory, LeavesSkippedActionsOut) {
  SimAllocator with;
  const std::pair<const char*, const char*> cases[] = {
      {nullptr, "segment_alloc alloc free_requested free_completed segment_free"},
      {"", "segment_alloc alloc free_requested free_completed segment_free"},
      {"alloc,free_requested", "segment_alloc free_completed segment_free"},
  };
  for (const auto& [skipped, expected] : cases) {
    record(with, skipped);
    with.free(with.allocate(2048));
    with.empty_cache();
    EXPECT_EQ(joined(ring_actions(with), " "), expected);
  }
}

// memory_plots_metadata
TEST(UpstreamHistory, CarriesTheThreadsTextWhileItIsSet) {
  SimAllocator with;
  record(with, "segment_alloc,free_completed");
  with.ok(cachalot_set_metadata(" (step 1)", with.error()));
  const cachalot_address block = with.allocate(1000);
  with.ok(cachalot_set_metadata("", with.error()));
  with.free(block);
  EXPECT_EQ(joined(ring_actions(with), "; "), "alloc (step 1); free_requested");
}

// raises_oom
TEST(UpstreamHistory, OutOfMemoryLeavesEmptyCacheAndSmallRequestsWorking) {
  for (const char* config : {"max_split_size_mb:1024", ""}) {
    SimAllocator with(config);
    EXPECT_EQ(with.try_allocate(1000 * GiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
    with.empty_cache();
    with.allocate(1000);
  }
}

// caching disabled
TEST(UpstreamHistory, RequestsWithoutCachingAreNotCounted) {
  SimAllocator with;
  with.allocate(1000);
  with.ok(cachalot_set_caching_enabled(with.get(), 0, with.error()));
  const cachalot_address block = with.allocate(512 * MiB);
  EXPECT_EQ(with.stats().requested_bytes.all.current, 1000);
  with.free(block);
  with.ok(cachalot_set_caching_enabled(with.get(), 1, with.error()));
  EXPECT_EQ(with.stats().requested_bytes.all.allocated, 1000);
}

// allocator_memory_fraction_setting
TEST(UpstreamHistory, FractionsOfTheStringAreCheckedAtTheStart) {
  for (const char* fraction : {"0.0", "0.5", "1.0"}) {
    SimAllocator with(std::string("per_process_memory_fraction:") + fraction);
  }
  SimAllocator with;
  for (const char* fraction : {"-0.1", "1.1"}) {
    const std::string config = std::string("per_process_memory_fraction:") + fraction;
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = with.driver();
    options.config = config.c_str();
    cachalot_allocator* made = nullptr;
    EXPECT_EQ(with.refused(cachalot_allocator_create(&options, &made, with.error()),
                           CACHALOT_ERROR_INVALID_ARGUMENT),
              "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
  }
}

// allocator_fuzz. Another run: --gtest_random_seed=N.
TEST(UpstreamHistory, TenThousandRandomStepsMixUpNoContents) {
  const int seed = GTEST_FLAG_GET(random_seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const char* config :
       {"", "expandable_segments:True", "max_split_size_mb:20,roundup_power2_divisions:4"}) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.config = config;
    ASSERT_EQ(cachalot_driver_create_host(GiB, 1, &options.driver, nullptr), CACHALOT_OK);
    cachalot_allocator* allocator = nullptr;
    ASSERT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
    struct Piece {
      cachalot_address address;
      uint64_t size;
      uint32_t pattern;
    };
    // First and last word are written, so that a test run does not move terabytes.
    const auto words = [](const Piece& piece) {
      auto* bytes = reinterpret_cast<char*>(piece.address);
      return std::make_pair(bytes, bytes + piece.size - sizeof(uint32_t));
    };
    std::vector<Piece> live;
    const auto free_one = [&](size_t index) {
      const Piece piece = live[index];
      for (const char* place : {words(piece).first, words(piece).second}) {
        uint32_t found = 0;
        std::memcpy(&found, place, sizeof found);
        EXPECT_EQ(found, piece.pattern);
      }
      EXPECT_EQ(cachalot_free(allocator, piece.address, nullptr), CACHALOT_OK);
      live[index] = live.back();
      live.pop_back();
    };
    for (uint32_t step = 0; step < 10000; step++) {
      if (live.size() > 20 || (!live.empty() && random() % 2 == 0)) {
        free_one(random() % live.size());
        continue;
      }
      Piece piece = {0, 2 * MiB + random() % (18 * MiB), step};
      ASSERT_EQ(cachalot_allocate(allocator, piece.size, 0, 0, &piece.address, nullptr),
                CACHALOT_OK);
      std::memcpy(words(piece).first, &step, sizeof step);
      std::memcpy(words(piece).second, &step, sizeof step);
      live.push_back(piece);
    }
    EXPECT_EQ(cachalot_check(allocator, nullptr), CACHALOT_OK);
    while (!live.empty()) free_one(0);
    EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
    cachalot_driver_destroy(options.driver);
  }
}

// ---- Settings

// What a request adds to active_bytes and requested_bytes.
std::pair<int64_t, int64_t> growth(SimAllocator& with, uint64_t size) {
  const cachalot_stats before = with.stats();
  with.free(with.allocate(size));
  const cachalot_stats after = with.stats();
  return {after.active_bytes.all.allocated - before.active_bytes.all.allocated,
          after.requested_bytes.all.allocated - before.requested_bytes.all.allocated};
}

// allocator_settings
TEST(UpstreamSettings, RoundingShowsInTheActiveBytes) {
  SimAllocator with;
  const int64_t asked = signed_bytes(84 * MiB);
  EXPECT_EQ(growth(with, 84 * MiB), std::make_pair(asked, asked));
  with.empty_cache();
  with.configure("roundup_power2_divisions:4");
  EXPECT_EQ(growth(with, 84 * MiB), std::make_pair(signed_bytes(96 * MiB), asked));
  with.empty_cache();
  with.configure(
      "garbage_collection_threshold:0.5,"
      "roundup_power2_divisions:[64:8,128:2,256:2,512:2,1024:1,>:1]");
  EXPECT_EQ(growth(with, 84 * MiB), std::make_pair(signed_bytes(88 * MiB), asked));
  with.empty_cache();
  EXPECT_EQ(growth(with, 400 * MiB).first, signed_bytes(512 * MiB));
  for (const char* config : {"garbage_collection_threshold:0.5",
                             "garbage_collection_threshold:0.5,max_split_size_mb:40"}) {
    with.empty_cache();
    with.configure(config);
    EXPECT_EQ(growth(with, 84 * MiB).first, asked) << "a string that does not name it resets it";
  }
}

// allocator_settings, errors
TEST(UpstreamSettings, FaultyStringsAreRefused) {
  SimAllocator with;
  for (const char* config :
       {"foo:1,bar:2", "garbage_collection_threshold:1.2", "max_split_size_mb:2",
        "release_lock_on_cudamalloc:none", "pinned_use_cuda_host_register:none",
        "pinned_num_register_threads:none", "pinned_num_register_threads:1024"}) {
    with.refused(cachalot_configure(with.get(), config, with.error()),
                 CACHALOT_ERROR_INVALID_ARGUMENT);
  }
}

// max_split_expandable
TEST(UpstreamSettings, CachedBlocksOfBothKindsAreReleasedForALargeRequest) {
  SimAllocator with;
  with.set_limit(120 * MiB);
  std::vector<cachalot_address> blocks;
  for (const char* expandable : {"False", "True", "False"}) {
    with.configure(std::string("max_split_size_mb:40,expandable_segments:") + expandable);
    blocks.push_back(with.allocate(40 * MiB));
  }
  EXPECT_EQ(with.try_allocate(40 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  for (const cachalot_address block : blocks) with.free(block);
  with.allocate(120 * MiB);
}

// garbage_collect_expandable
TEST(UpstreamSettings, GarbageCollectionPassesOverExpandableBlocks) {
  SimAllocator with;
  with.set_limit(120 * MiB);
  std::vector<cachalot_address> blocks;
  for (const char* expandable : {"False", "True"}) {
    with.configure(std::string("garbage_collection_threshold:0.5,expandable_segments:") +
                   expandable);
    blocks.push_back(with.allocate(40 * MiB));
  }
  for (const cachalot_address block : blocks) with.free(block);
  with.watch();
  with.allocate(80 * MiB);
  EXPECT_EQ(with.take_trace().substr(0, 20), "segment_free 0 40M; ");
}

// AllocatorConfig_test
TEST(UpstreamSettings, ALaterStringReplacesTheValues) {
  SimAllocator with;
  const std::string config =
      "max_split_size_mb:40,max_non_split_rounding_mb:30,garbage_collection_threshold:0.5,"
      "roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1],expandable_segments:True,"
      "pinned_use_background_threads:True,";  // a comma at the end is accepted
  with.configure(config);
  cachalot_settings settings = with.settings();
  EXPECT_EQ(settings.max_split_size, 40 * MiB);
  EXPECT_EQ(settings.max_non_split_rounding_size, 30 * MiB);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.5);
  EXPECT_EQ(settings.expandable_segments, 1);
  EXPECT_EQ(settings.pinned_use_background_threads, 1);
  EXPECT_EQ(with.block_size_for(100 * MiB), 104 * MiB);
  with.configure("max_split_size_mb:50,expandable_segments:False");
  settings = with.settings();
  EXPECT_EQ(settings.max_split_size, 50 * MiB);
  EXPECT_EQ(settings.expandable_segments, 0);
  char last[100] = {};
  with.ok(cachalot_get_config(with.get(), last, sizeof last, nullptr, with.error()));
  EXPECT_STREQ(last, "max_split_size_mb:50,expandable_segments:False");
}

// ---- User pools

// mempool_empty_cache, mempool_empty_cache_inactive
TEST(UpstreamPools, KeepTheirSegmentsUntilPoolAndBlocksHaveGone) {
  SimAllocator with;
  with.create_pool(kPool);
  with.begin_pool(kPool);
  const cachalot_address block = with.allocate(MiB);
  with.leave_pool(kPool);
  with.empty_cache();
  EXPECT_EQ(with.segments(kPool).size(), 1u);
  with.release_pool(kPool);
  with.empty_pool(kPool);
  EXPECT_EQ(with.segments(kPool).size(), 1u) << "a block lives";
  with.free(block);
  with.empty_cache();
  EXPECT_EQ(with.segments().size(), 0u);
}

// limited_memory, use_on_oom
TEST(UpstreamPools, OptInsServeRequestsFromTheirCachedBlocks) {
  for (const bool use_on_oom : {true, false}) {
    SimAllocator with(SimSetup{.capacity = 100 * MiB});
    with.create_pool(kPool, use_on_oom ? CACHALOT_POOL_USE_ON_OOM : 0);
    with.begin_pool(kPool);
    const cachalot_address inside = with.allocate(60 * MiB);
    with.free(inside);
    with.leave_pool(kPool);
    const Outcome outside = with.try_allocate(60 * MiB);
    EXPECT_EQ(outside.status, use_on_oom ? CACHALOT_OK : CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(outside.address, use_on_oom ? inside : 0);
  }
}

// deleted_mempool_not_used_on_oom: a pool object opts out, is released, and is emptied.
TEST(UpstreamPools, ADeletedPoolIsNotUsed) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  with.cache_in_pool(kPool, {60}, CACHALOT_POOL_USE_ON_OOM);
  with.ok(cachalot_pool_set_use_on_oom(with.get(), 0, kPool, 0, with.error()));
  with.release_pool(kPool);
  with.empty_pool(kPool);
  EXPECT_EQ(with.reserved(), 0u);
  with.allocate(80 * MiB);
  EXPECT_EQ(with.try_allocate(60 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
}

// mempool_emptycache_multithread
TEST(UpstreamPools, EmptyCacheOfThreadsLeavesLivePoolsAlone) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    std::vector<std::thread> threads;
    for (uint64_t t = 1; t <= 4; t++) {
      threads.emplace_back([&with, t] {
        const auto pool = SimAllocator::user_pool(t);
        cachalot_address block = 0;
        EXPECT_EQ(cachalot_pool_create(with.get(), 0, pool, nullptr, nullptr), CACHALOT_OK);
        EXPECT_EQ(cachalot_pool_begin(with.get(), 0, pool, nullptr, nullptr), CACHALOT_OK);
        EXPECT_EQ(cachalot_allocate(with.get(), MiB, 0, 0, &block, nullptr), CACHALOT_OK);
        EXPECT_EQ(cachalot_free(with.get(), block, nullptr), CACHALOT_OK);
        EXPECT_EQ(cachalot_empty_cache(with.get(), nullptr), CACHALOT_OK);
        EXPECT_EQ(cachalot_pool_end(with.get(), 0, pool, nullptr), CACHALOT_OK);
        EXPECT_EQ(cachalot_pool_release(with.get(), 0, pool, nullptr), CACHALOT_OK);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (uint64_t t = 1; t <= 4; t++) {
      EXPECT_EQ(with.segments(SimAllocator::user_pool(t)).size(), 1u);
    }
  }
}

// mempool_ctx_multithread
TEST(UpstreamPools, AThreadInAPoolTakesNoRequestsOfOthers) {
  SimAllocator with;
  std::thread([&] { with.begin_pool(kPool); }).join();
  with.allocate(2 * MiB);
  EXPECT_EQ(with.segments(kPool).size(), 0u);
  EXPECT_EQ(with.stats().active_bytes.all.current, signed_bytes(2 * MiB));
  with.leave_pool(kPool);
}

// allocate_in_thread_to_pool
TEST(UpstreamPools, AThreadBoundToAPoolAllocatesInIt) {
  for (const bool expandable : {false, true}) {
    SimAllocator with(expandable ? "expandable_segments:True" : "");
    std::thread([&] {
      with.begin_pool(kPool);
      for (int i = 0; i < 3; i++) with.allocate(20 * MiB);
      with.allocate(1000);
      with.end_pool(kPool);
    }).join();
    with.allocate(20 * MiB);
    EXPECT_EQ(with.segments(kPool).size(), expandable ? 2u : 4u);
    with.release_pool(kPool);
  }
}

// ---- Several GPUs

// memory_stats, memory_stats_multigpu
TEST(UpstreamDevices, EachEmptyCacheCountsOneSynchronisationADevice) {
  SimAllocator with(SimSetup{.device_count = 2});
  for (int i = 1; i <= 4; i++) {
    with.free(with.allocate(static_cast<uint64_t>(i) * MiB, 0, i % 2));
    with.empty_cache();
    for (const int32_t device : {0, 1}) EXPECT_EQ(with.stats(device).num_sync_all_streams, i);
  }
  EXPECT_EQ(with.stats(0).allocation.all.allocated, 2);
  EXPECT_EQ(with.stats(1).allocation.all.allocated, 2);
}

TEST(UpstreamDevices, PeaksStayUntilTheyAreReset) {
  SimAllocator with;
  const cachalot_address block = with.allocate(40 * MiB);
  with.allocate(10 * MiB);
  with.free(block);
  EXPECT_EQ(cachalot_max_memory_allocated(with.get(), 0), 50 * MiB);
  EXPECT_EQ(cachalot_memory_allocated(with.get(), 0), 10 * MiB);
  with.ok(cachalot_reset_peak_stats(with.get(), 0, with.error()));
  EXPECT_EQ(cachalot_max_memory_allocated(with.get(), 0), 10 * MiB);
  EXPECT_EQ(cachalot_max_memory_reserved(with.get(), 0), 50 * MiB);
}

// check_memory_stat_consistency: every current counter, computed from a snapshot.
std::map<std::string, int64_t> counted_from_snapshot(SimAllocator& with) {
  std::map<std::string, int64_t> sums;
  cachalot_snapshot* snapshot = with.take_snapshot();
  for (size_t i = 0; i < cachalot_snapshot_segment_count(snapshot); i++) {
    cachalot_segment_row segment = {};
    segment.struct_size = sizeof segment;
    with.ok(cachalot_snapshot_segment(snapshot, i, &segment));
    const char* kind = segment.is_large ? "large_pool" : "small_pool";
    const auto add = [&](const char* name, uint64_t value) {
      for (const char* k : {"all", kind}) {
        sums[std::string(name) + "." + k + ".current"] += signed_bytes(value);
      }
    };
    add("segment", segment.is_expandable ? 0 : 1);
    add("reserved_bytes", segment.total_size);
    add("requested_bytes", segment.requested_size);
    for (size_t b = 0; b < segment.block_count; b++) {
      cachalot_block_row block = {};
      block.struct_size = sizeof block;
      with.ok(cachalot_snapshot_block(snapshot, segment.first_block + b, &block));
      const bool is_active = block.state != CACHALOT_BLOCK_INACTIVE;
      const bool is_allocated = block.state == CACHALOT_BLOCK_ALLOCATED;
      const bool is_split = !is_active && !segment.is_expandable && segment.block_count > 1;
      add("active", is_active);
      add("active_bytes", is_active ? block.size : 0);
      add("allocation", is_allocated);
      add("allocated_bytes", is_allocated ? block.size : 0);
      add("inactive_split", is_split);
      add("inactive_split_bytes", is_split ? block.size : 0);
    }
  }
  cachalot_snapshot_destroy(snapshot);
  return sums;
}

// The same counters from the statistics; those of 0 are left out where the snapshot has none.
void expect_consistent(SimAllocator& with, int32_t release) {
  const std::map<std::string, int64_t> counted = counted_from_snapshot(with);
  const cachalot_stats stats = with.stats();
  const char* name = nullptr;
  int64_t value = 0;
  for (size_t i = 0; cachalot_stats_at(&stats, release, i, &name, &value) == CACHALOT_OK; i++) {
    const std::string key = name;
    if (!key.ends_with(".current") || key.starts_with("oversize")) continue;
    const auto found = counted.find(key);
    ASSERT_EQ(value, found == counted.end() ? 0 : found->second) << key;
  }
}

TEST(UpstreamDevices, EveryCurrentCounterFollowsFromASnapshot) {
  const int seed = GTEST_FLAG_GET(random_seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const int32_t release : kReleases) {
    for (const char* config : {"", "expandable_segments:True", "max_split_size_mb:20"}) {
      std::mt19937 random(static_cast<uint32_t>(seed));
      SimAllocator with(SimSetup{.config = config, .release = release, .capacity = 400 * MiB});
      std::vector<cachalot_address> live;
      for (int step = 0; step < 200; step++) {
        const uint32_t choice = random() % 16;
        if (choice < 8) {
          const uint64_t size = random() % 2 ? 1 + random() % MiB : 1 + random() % (40 * MiB);
          const Outcome outcome = with.try_allocate(size, 0x10 * (random() % 3));
          if (outcome.status == CACHALOT_OK) live.push_back(outcome.address);
        } else if (choice < 14 && !live.empty()) {
          const size_t index = random() % live.size();
          if (random() % 3 == 0) {
            with.record_stream(live[index], 0x20);
            with.queue_work(0x20);
          }
          with.free(live[index]);
          live[index] = live.back();
          live.pop_back();
        } else if (choice == 14) {
          with.finish_work(0x20);
        } else if (random() % 8 == 0) {
          with.empty_cache();
        }
        ASSERT_NO_FATAL_FAILURE(expect_consistent(with, release)) << "step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace cachalot_test
