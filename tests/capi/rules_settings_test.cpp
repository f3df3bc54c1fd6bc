// SPDX-License-Identifier: MIT OR Apache-2.0
// Settings: what each key of the option string does to an allocator, and what a change at run time
// keeps and resets [opt 1 to 7].
#include <functional>
#include <thread>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

// The string that tutorials show.
constexpr char kTutorial[] =
    "backend:native,max_split_size_mb:128,roundup_power2_divisions:4,"
    "roundup_bypass_threshold_mb:256,garbage_collection_threshold:0.8";

std::string config_of(SimAllocator& with) {
  char buffer[400] = {};
  with.ok(cachalot_get_config(with.get(), buffer, sizeof buffer, nullptr, with.error()));
  return buffer;
}

std::string refused(SimAllocator& with, const std::string& config) {
  return with.refused(cachalot_configure(with.get(), config.c_str(), with.error()),
                      CACHALOT_ERROR_INVALID_ARGUMENT);
}

// The 16 slots, runs of equal ones as "0-6:8 7:0".
std::string slots_of(const cachalot_settings& settings) {
  std::vector<std::string> runs;
  for (int first = 0; first < 16;) {
    const uint64_t divisions = settings.roundup_power2_divisions[first];
    int last = first;
    while (last + 1 < 16 && settings.roundup_power2_divisions[last + 1] == divisions) last++;
    const std::string slots = std::to_string(first) + (last > first ? "-" : "") +
                              (last > first ? std::to_string(last) : "");
    runs.push_back(slots + ":" + std::to_string(divisions));
    first = last + 1;
  }
  return joined(runs, " ");
}

// ---- The string of the tutorials, key by key

TEST(TutorialString, IsAcceptedInBothReleasesAtBothMoments) {
  for (const int32_t release : kReleases) {
    SimAllocator made(SimSetup{.config = kTutorial, .release = release});
    EXPECT_EQ(config_of(made), kTutorial);
    SimAllocator changed(SimSetup{.release = release});
    changed.configure(kTutorial);
    for (SimAllocator* with : {&made, &changed}) {
      const cachalot_settings settings = with->settings();
      EXPECT_EQ(settings.max_split_size, 128 * MiB);
      EXPECT_EQ(settings.max_non_split_rounding_size, 20 * MiB);
      EXPECT_EQ(slots_of(settings), "0-15:4");
      EXPECT_EQ(settings.roundup_bypass_threshold, 256 * MiB);
      EXPECT_EQ(settings.garbage_collection_threshold, 0.8);
    }
    EXPECT_EQ(made.stats().max_split_size, static_cast<int64_t>(128 * MiB));
    EXPECT_EQ(changed.stats().max_split_size, -1) << "frozen when the allocator was made";
  }
}

TEST(TutorialString, KeepsLargeBlocksWhole) {
  SimAllocator with(kTutorial);
  with.cache({128});
  with.allocate(96 * MiB);
  EXPECT_EQ(with.layout(), "0: free 128M | 128M: used 96M");

  SimAllocator without;
  without.cache({128});
  without.allocate(96 * MiB);
  EXPECT_EQ(without.layout(), "0: used 96M, free 32M");
}

TEST(TutorialString, RoundsByFourDivisions) {
  SimAllocator with(kTutorial);
  EXPECT_EQ(with.block_size_for(84 * MiB), 96 * MiB);
}

TEST(TutorialString, LeavesLargerRequestsUnrounded) {
  SimAllocator with(kTutorial);
  EXPECT_EQ(with.block_size_for(254 * MiB), 256 * MiB);
  EXPECT_EQ(with.block_size_for(258 * MiB), 258 * MiB);
}

TEST(TutorialString, CollectsGarbageAboveEightTenthsOfTheLimit) {
  for (const uint64_t limit : {140u, 139u}) {  // 0.8 of 140 MiB is 112 MiB
    SimAllocator with(kTutorial);
    with.cache({100});
    EXPECT_EQ(with.reserved(), 112 * MiB) << "100 MiB, rounded";
    with.set_limit(limit * MiB);
    with.allocate(20 * MiB, 0x10);
    EXPECT_EQ(with.stats().num_device_free, limit == 140 ? 0 : 1);
  }
}

TEST(TutorialString, CannotChangeTheBackendLater) {
  SimAllocator with(kTutorial);
  EXPECT_EQ(refused(with, "backend:foo"),
            "Unknown allocator backend, options are native and cudaMallocAsync");
  with.refused(cachalot_configure(with.get(), "backend:cudaMallocAsync", with.error()),
               CACHALOT_ERROR_INVALID_STATE);
}

// ---- roundup_bypass_threshold_mb

TEST(RoundupBypass, ActsAboveItsThresholdInBothForms) {
  for (const std::string divisions : {"4", "[64:4,128:4,256:4]"}) {
    SimAllocator with(
        "expandable_segments:True,roundup_bypass_threshold_mb:300,"
        "roundup_power2_divisions:" +
        divisions);
    EXPECT_EQ(with.block_size_for(300 * MiB - 1), 320 * MiB) << divisions;
    EXPECT_EQ(with.block_size_for(300 * MiB), 320 * MiB) << divisions << ": equality rounds";
    EXPECT_EQ(with.block_size_for(300 * MiB + 1), 300 * MiB + 512) << divisions;
    EXPECT_EQ(with.block_size_for(400 * MiB), 400 * MiB) << divisions;
  }
}

TEST(RoundupBypass, DoesNothingWithoutDivisions) {
  SimAllocator with("expandable_segments:True,roundup_bypass_threshold_mb:0");
  EXPECT_EQ(with.block_size_for(5000000), 5000192u);
}

TEST(RoundupBypass, OfZeroSwitchesRoundingOff) {
  SimAllocator with(
      "expandable_segments:True,roundup_power2_divisions:4,roundup_bypass_threshold_mb:0");
  EXPECT_EQ(with.block_size_for(5000000), 5000192u);
}

TEST(RoundupBypass, IsReadAndClampedLikeTheSplitLimit) {
  SimAllocator with("roundup_bypass_threshold_mb:-1");
  EXPECT_EQ(with.settings().roundup_bypass_threshold, UINT64_MAX - MiB + 1);
  EXPECT_EQ(refused(with, "roundup_bypass_threshold_mb:abc"), "stoull");
}

TEST(RoundupBypass, IsResetByAStringThatDoesNotNameIt) {
  SimAllocator with(kTutorial);
  with.configure("expandable_segments:True,roundup_power2_divisions:4");
  EXPECT_EQ(with.settings().roundup_bypass_threshold, UINT64_MAX);
  EXPECT_EQ(with.block_size_for(300 * MiB), 320 * MiB);
}

// ---- roundup_power2_divisions [opt 4.5]

TEST(RoundupDivisions, FillTheSlotsAsTheReferenceDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"8", "0-15:8"},
      {"[256:1,512:2,1024:4,>:8]", "0-8:1 9:2 10:4 11-15:8"},
      {"[64:8,256:4,1024:4,>:1]", "0-6:8 7:0 8:4 9:0 10:4 11-15:1"},
      {"[128:8,256:16,512:1,2048:8,>:2]", "0-7:8 8:16 9:1 10:0 11:8 12-15:2"},
      {"[64:8,256:4]", "0-6:8 7:0 8:4 9-15:0"},
      {"[65536:4]", "0-15:4"},
      {"[>:8]", "0:0 1-15:8"},
      {"[>:8,64:4]", "0-6:4 7-15:8"},
      {"[128:2,64:4,>:1]", "0-5:2 6:4 7-15:1"},
      {"[64:4,>:1,128:2]", "0-6:4 7:2 8-15:1"},
      {"[32768:4,>:2]", "0-15:4"},
      {"[1:2,4:8,64:4,256:1,>:2]", "0:2 1:0 2:8 3-5:0 6:4 7:0 8:1 9-15:2"},
      {"[64:8,]", "0-6:8 7-15:0"},
      {"[]", "0-15:0"},
  };
  SimAllocator with;
  for (const auto& [value, slots] : cases) {
    with.configure(std::string("roundup_power2_divisions:") + value);
    EXPECT_EQ(slots_of(with.settings()), slots) << value;
  }
}

// ---- Other keys

TEST(MaxSplitSize, OfMinusOneIsHugeAndYetFinite) {
  SimAllocator with("max_split_size_mb:-1");
  EXPECT_EQ(with.settings().max_split_size, UINT64_MAX - MiB + 1);
  EXPECT_EQ(with.stats().max_split_size, -static_cast<int64_t>(MiB));
}

TEST(LargeSegmentSize, OfMinusOneFailsEveryMediumRequest) {
  SimAllocator with("large_segment_size_mb:-1");
  EXPECT_EQ(with.try_allocate(2 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.allocate(10 * MiB);
  with.allocate(1000);
}

TEST(ExpandableSegments, CountForTheNextRequest) {
  SimAllocator with;
  with.allocate(2 * MiB);
  with.configure("expandable_segments:True");
  with.allocate(2 * MiB, 0x10);
  with.configure("expandable_segments:False");
  with.allocate(2 * MiB, 0x20);
  std::vector<int32_t> kinds;
  for (const cachalot_segment_row& row : with.segments()) kinds.push_back(row.is_expandable);
  EXPECT_EQ(kinds, (std::vector<int32_t>{0, 1, 0}));
}

TEST(ReleaseLock, LetsOthersAtTheDeviceWhileMemoryIsObtained) {
  struct State {
    SimAllocator* with;
    cachalot_address next;
    cachalot_address meanwhile;
  };
  for (const std::string key : {"release_lock_on_cudamalloc", "release_lock_on_hipmalloc"}) {
    SimAllocator with(key + ":True");
    State state = {&with, 2 * kFirstAddress, 0};
    cachalot_pool_source source = {};
    source.struct_size = sizeof source;
    source.allocate = [](void* user_data, uint64_t size, int32_t, cachalot_stream) {
      auto& s = *static_cast<State*>(user_data);
      std::thread([&s] { s.meanwhile = s.with->allocate(1000); }).join();
      return std::exchange(s.next, s.next + size);
    };
    source.free = [](void*, cachalot_address, uint64_t, int32_t, cachalot_stream) {};
    source.user_data = &state;
    cachalot_pool_options options = {};
    options.struct_size = sizeof options;
    options.source = &source;
    const auto pool = SimAllocator::user_pool(1);
    with.ok(cachalot_pool_create(with.get(), 0, pool, &options, with.error()));
    with.begin_pool(pool);
    EXPECT_EQ(with.allocate(20 * MiB), 2 * kFirstAddress);
    EXPECT_EQ(state.meanwhile, kFirstAddress);
    with.leave_pool(pool);
  }
}

TEST(PinnedOptions, AreKept) {
  SimAllocator with(
      "pinned_use_background_threads:True,pinned_use_cuda_host_register:True,"
      "pinned_num_register_threads:8,pinned_reserve_segment_size_mb:64,pinned_free_catch_all:True,"
      "pinned_max_round_threshold_mb:64,pinned_max_cached_size_mb:32");
  const cachalot_settings settings = with.settings();
  EXPECT_EQ(settings.pinned_use_background_threads, 1);
  EXPECT_EQ(settings.pinned_use_cuda_host_register, 1);
  EXPECT_EQ(settings.pinned_num_register_threads, 8u);
  EXPECT_EQ(settings.pinned_reserve_segment_size_mb, 64u);
  EXPECT_EQ(settings.pinned_free_catch_all, 1);
  EXPECT_EQ(settings.pinned_max_round_threshold, 64 * MiB);
  EXPECT_EQ(settings.pinned_max_cached_size, 32 * MiB);
  EXPECT_EQ(with.take_log(),
            "pinned_max_round_threshold_mb (64) > pinned_max_cached_size_mb (32). The cache size "
            "limit takes precedence: allocations above pinned_max_cached_size_mb are never rounded "
            "up.");
}

TEST(NewKeys, AreUnknownIn211) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  for (const std::string key :
       {"throw_on_cudamalloc_oom", "pinned_free_catch_all", "pinned_max_round_threshold_mb",
        "pinned_max_cached_size_mb", "expandable_segments_reserve",
        "expandable_segments_reserve_by_class"}) {
    EXPECT_EQ(refused(with, key + ":1"),
              "Unrecognized key '" + key + "' in Accelerator allocator config.");
  }
}

// ---- Changes at run time [opt 1.10, 5]

TEST(Configure, ResetsOrKeepsWhatTheStringDoesNotName) {
  SimAllocator with(
      "max_split_size_mb:64,max_non_split_rounding_mb:50,garbage_collection_threshold:0.5,"
      "roundup_power2_divisions:4,roundup_bypass_threshold_mb:256,large_segment_size_mb:40,"
      "expandable_segments:True,pinned_use_background_threads:True,"
      "release_lock_on_cudamalloc:True,graph_capture_record_stream_reuse:True,"
      "pinned_num_register_threads:8,per_process_memory_fraction:0.75,"
      "throw_on_cudamalloc_oom:True,pinned_max_round_threshold_mb:16");
  with.configure("");
  const cachalot_settings settings = with.settings();
  EXPECT_EQ(settings.max_split_size, UINT64_MAX);
  EXPECT_EQ(settings.garbage_collection_threshold, 0);
  EXPECT_EQ(slots_of(settings), "0-15:0");
  EXPECT_EQ(settings.roundup_bypass_threshold, UINT64_MAX);
  EXPECT_EQ(settings.max_non_split_rounding_size, 40 * MiB) << "reset to the large segment size";
  EXPECT_EQ(settings.large_segment_size, 40 * MiB) << "kept, like all that follow";
  EXPECT_EQ(settings.expandable_segments, 1);
  EXPECT_EQ(settings.pinned_use_background_threads, 1);
  EXPECT_EQ(settings.release_lock_on_cudamalloc, 1);
  EXPECT_EQ(settings.graph_capture_record_stream_reuse, 1);
  EXPECT_EQ(settings.pinned_num_register_threads, 8u);
  EXPECT_EQ(settings.per_process_memory_fraction, 0.75);
  EXPECT_EQ(settings.throw_on_cudamalloc_oom, 1);
  EXPECT_EQ(settings.pinned_max_round_threshold, 16 * MiB);
  EXPECT_EQ(config_of(with), "");
}

TEST(Configure, WithAFaultHasResetAndAppliedWhatStandsBeforeIt) {
  SimAllocator with("max_split_size_mb:64,garbage_collection_threshold:0.5");
  const std::string faulty = "garbage_collection_threshold:0.25,foo:1,max_split_size_mb:128";
  EXPECT_EQ(refused(with, faulty), "Unrecognized key 'foo' in Accelerator allocator config.");
  EXPECT_EQ(with.settings().garbage_collection_threshold, 0.25);
  EXPECT_EQ(with.settings().max_split_size, UINT64_MAX);
  EXPECT_EQ(config_of(with), faulty);
}

TEST(Configure, WithAFaultOfTheFirstReadingKeepsTheSecondFromRunning) {
  SimAllocator with;
  EXPECT_EQ(refused(with, "pinned_num_register_threads:3,max_split_size_mb:2"),
            "CachingAllocator option max_split_size_mb too small, must be >= 20");
  EXPECT_EQ(refused(with, "max_split_size_mb:64,pinned_num_register_threads:3"),
            "Number of register threads has to be power of 2, got 3");
  EXPECT_EQ(with.settings().max_split_size, 64 * MiB);
}

TEST(Configure, ReleasesAndMovesNothing) {
  SimAllocator with;
  const cachalot_address live = with.allocate(30 * MiB);
  with.cache({100, 20});
  const std::string before = with.layout();
  with.watch();
  with.take_calls();
  with.configure(kTutorial);
  EXPECT_EQ(with.layout(), before);
  EXPECT_EQ(with.take_trace(), "");
  EXPECT_EQ(with.take_calls(), "");
  with.free(live);
}

TEST(Snapshot, ShowsTheSettingsOfItsMoment) {
  SimAllocator with(kTutorial);
  cachalot_snapshot* before = with.take_snapshot();
  with.configure("max_split_size_mb:64");
  cachalot_snapshot* after = with.take_snapshot();
  EXPECT_STREQ(cachalot_snapshot_config(before), kTutorial);
  EXPECT_STREQ(cachalot_snapshot_config(after), "max_split_size_mb:64");
  cachalot_settings settings = {};
  settings.struct_size = sizeof settings;
  with.ok(cachalot_snapshot_settings(after, &settings));
  EXPECT_EQ(settings.max_split_size, 64 * MiB);
  cachalot_snapshot_destroy(before);
  cachalot_snapshot_destroy(after);
}

// ---- Settings as numbers

void set(SimAllocator& with, const std::function<void(cachalot_settings&)>& change) {
  cachalot_settings settings = with.settings();
  change(settings);
  with.ok(cachalot_set_settings(with.get(), &settings, with.error()));
}

TEST(SetSettings, OfTheSplitLimitLeavesExistingBlocksUnharmed) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release, .capacity = 400 * MiB});
    const cachalot_address front = with.allocate(60 * MiB);
    with.cache({200});
    const cachalot_address cut = with.allocate(50 * MiB);  // of the 200 MiB
    const std::string before = with.layout();
    EXPECT_EQ(before, "0: used 60M | 60M: used 50M, free 150M");
    set(with, [](cachalot_settings& s) { s.max_split_size = 40 * MiB; });
    EXPECT_EQ(with.layout(), before);
    EXPECT_EQ(with.block(cut).size, 50 * MiB);
    // The search and the oversize release of a request that cannot be served meet the pieces.
    EXPECT_EQ(with.try_allocate(300 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(with.layout(), before);
    with.allocate(20 * MiB);
    EXPECT_EQ(with.layout(), before + " | 260M: used 20M") << "no piece of 150 MiB for 20 MiB";
    with.free(cut);
    with.free(front);
    EXPECT_EQ(with.layout(), "0: free 60M | 60M: free 200M | 260M: used 20M");
    set(with, [](cachalot_settings& s) { s.max_split_size = UINT64_MAX; });
    EXPECT_EQ(with.allocate(170 * MiB), kFirstAddress + 60 * MiB);
    with.empty_cache();
    EXPECT_EQ(with.layout(), "60M: used 170M, free 30M | 260M: used 20M");
  }
}

TEST(SetSettings, ActsLikeTheString) {
  SimAllocator with;
  set(with, [](cachalot_settings& s) {
    s.roundup_power2_divisions[6] = 8;
    s.roundup_power2_divisions[7] = 4;
    s.roundup_bypass_threshold = 200 * MiB;
    s.expandable_segments = 1;
  });
  EXPECT_EQ(with.block_size_for(84 * MiB), 88 * MiB);
  EXPECT_EQ(with.block_size_for(190 * MiB), 192 * MiB);
  EXPECT_EQ(with.block_size_for(201 * MiB), 201 * MiB);
  set(with, [](cachalot_settings& s) {
    s.large_segment_size = s.max_non_split_rounding_size = 40 * MiB;
  });
  with.allocate(2 * MiB, 0x10);
  EXPECT_EQ(with.segments().back().total_size, 40 * MiB);
}

TEST(SetSettings, ResetsNothingAndKeepsTheString) {
  SimAllocator with(kTutorial);
  set(with, [](cachalot_settings& s) { s.garbage_collection_threshold = 0.5; });
  EXPECT_EQ(with.settings().max_split_size, 128 * MiB);
  EXPECT_EQ(config_of(with), kTutorial);
}

TEST(SetSettings, WithAWrongValueChangesNothing) {
  SimAllocator with(kTutorial);
  const std::function<void(cachalot_settings&)> wrong[] = {
      [](cachalot_settings& s) { s.max_split_size = 19 * MiB; },
      [](cachalot_settings& s) { s.max_non_split_rounding_size = 1; },
      [](cachalot_settings& s) { s.large_segment_size = 10 * MiB; },
      [](cachalot_settings& s) { s.large_segment_size = 40 * MiB + 1; },
      [](cachalot_settings& s) { s.garbage_collection_threshold = 1; },
      [](cachalot_settings& s) { s.per_process_memory_fraction = 1.5; },
      [](cachalot_settings& s) { s.roundup_power2_divisions[3] = 3; },
      [](cachalot_settings& s) { s.expandable_segments = 2; },
      [](cachalot_settings& s) { s.pinned_num_register_threads = 256; },
  };
  for (const auto& change : wrong) {
    cachalot_settings settings = with.settings();
    settings.max_split_size = 64 * MiB;
    change(settings);
    with.refused(cachalot_set_settings(with.get(), &settings, with.error()),
                 CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(with.settings().max_split_size, 128 * MiB);
  }
}

}  // namespace
}  // namespace cachalot_test
