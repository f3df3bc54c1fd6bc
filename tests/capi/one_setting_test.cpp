// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of a live allocator one at a time, and strings that leave alone what they do not name.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

// A setter with a value that it takes, the field where that is found, and one that it refuses.
struct Setter {
  const char* name;
  std::function<cachalot_status(SimAllocator&)> set;
  std::function<void(cachalot_settings&)> expected;
  std::function<cachalot_status(SimAllocator&)> set_wrong;
  const char* text;  // of the refusal
};

template <class Value, class Given>
Setter setter(const char* name,
              cachalot_status (*function)(cachalot_allocator*, Value, cachalot_error*),
              Value cachalot_settings::*field, Given value, Given wrong, const char* text) {
  return {name,
          [=](SimAllocator& with) {
            return function(with.get(), static_cast<Value>(value), with.error());
          },
          [=](cachalot_settings& settings) { settings.*field = static_cast<Value>(value); },
          [=](SimAllocator& with) {
            return function(with.get(), static_cast<Value>(wrong), with.error());
          },
          text};
}

#define SETTER(field, value, wrong, text)                                                       \
  setter("cachalot_set_" #field, cachalot_set_##field, &cachalot_settings::field, value, wrong, \
         text)

constexpr const char* kNoFlag = "enabled is 2: expected 0 to 1";

std::vector<Setter> setters() {
  return {
      SETTER(max_split_size, 64 * MiB, 19 * MiB,
             "CachingAllocator option max_split_size_mb too small, must be >= 20"),
      SETTER(max_non_split_rounding_size, 48 * MiB, uint64_t{1},
             "CachingAllocator option max_non_split_rounding_mb too small, must be >= 20"),
      SETTER(large_segment_size, 16 * MiB, 10 * MiB,
             "CachingAllocator option large_segment_size_mb must be > 10 MB"),
      SETTER(garbage_collection_threshold, 0.5, 1.0,
             "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
      SETTER(per_process_memory_fraction, 0.25, 1.5,
             "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"),
      SETTER(roundup_bypass_threshold, 200 * MiB, 200 * MiB, nullptr),
      SETTER(expandable_segments, 1, 2, kNoFlag),
      SETTER(release_lock_on_cudamalloc, 1, 2, kNoFlag),
      SETTER(graph_capture_record_stream_reuse, 1, 2, kNoFlag),
      SETTER(throw_on_cudamalloc_oom, 1, 2, kNoFlag),
      SETTER(pinned_use_background_threads, 1, 2, kNoFlag),
      SETTER(pinned_use_cuda_host_register, 1, 2, kNoFlag),
      SETTER(pinned_free_catch_all, 1, 2, kNoFlag),
      SETTER(pinned_num_register_threads, uint64_t{8}, uint64_t{3},
             "Number of register threads has to be power of 2, got 3"),
      SETTER(pinned_reserve_segment_size_mb, uint64_t{512}, uint64_t{512}, nullptr),
      SETTER(pinned_max_round_threshold, 64 * MiB, 64 * MiB, nullptr),
      SETTER(pinned_max_cached_size, 128 * MiB, 128 * MiB, nullptr),
  };
}

bool equal(const cachalot_settings& a, const cachalot_settings& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST(OneSetting, ChangesItsFieldAndNoOther) {
  for (const Setter& each : setters()) {
    SCOPED_TRACE(each.name);
    SimAllocator with("max_non_split_rounding_mb:32,roundup_power2_divisions:8");
    cachalot_settings expected = with.settings();
    each.expected(expected);
    with.ok(each.set(with));
    EXPECT_TRUE(equal(with.settings(), expected));
  }
}

TEST(OneSetting, IsRefusedWithTheReferencesTextAndNothingChanges) {
  for (const Setter& each : setters()) {
    if (!each.text) continue;
    SCOPED_TRACE(each.name);
    SimAllocator with;
    const cachalot_settings before = with.settings();
    EXPECT_EQ(with.refused(each.set_wrong(with), CACHALOT_ERROR_INVALID_ARGUMENT), each.text);
    EXPECT_TRUE(equal(with.settings(), before));
  }
}

TEST(OneSetting, IsRefusedWhereItIsNoNumber) {
  SimAllocator with;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  with.refused(cachalot_set_garbage_collection_threshold(with.get(), nan, with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  with.refused(cachalot_set_per_process_memory_fraction(with.get(), nan, with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(OneSetting, OfALaterReleaseIsAnUnknownKey) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  EXPECT_EQ(with.refused(cachalot_set_throw_on_cudamalloc_oom(with.get(), 1, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "Unrecognized key 'throw_on_cudamalloc_oom' in Accelerator allocator config.");
  with.ok(cachalot_set_throw_on_cudamalloc_oom(with.get(), 0, with.error()));
}

TEST(OneSetting, OfTheSegmentSizeTakesTheDefaultOfTheRoundingAlong) {
  SimAllocator with;
  with.ok(cachalot_set_large_segment_size(with.get(), 40 * MiB, with.error()));
  EXPECT_EQ(with.settings().max_non_split_rounding_size, 40 * MiB);
  with.ok(cachalot_set_max_non_split_rounding_size(with.get(), 64 * MiB, with.error()));
  with.ok(cachalot_set_large_segment_size(with.get(), 12 * MiB, with.error()));
  EXPECT_EQ(with.settings().max_non_split_rounding_size, 64 * MiB) << "it was set";
  with.allocate(2 * MiB);
  EXPECT_EQ(with.reserved(), 12 * MiB);
}

TEST(OneSetting, MustGoWithTheOthers) {
  SimAllocator with("max_split_size_mb:30");
  EXPECT_EQ(with.refused(cachalot_set_large_segment_size(with.get(), 40 * MiB, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "CachingAllocator option max_split_size_mb too small, must be >= 40");
  EXPECT_EQ(with.settings().large_segment_size, 20 * MiB);
}

TEST(OneSetting, OfDivisionsIsOneForAllSizesOrOneForEach) {
  SimAllocator with;
  const auto set = [&](const std::vector<uint64_t>& divisions) {
    return cachalot_set_roundup_power2_divisions(with.get(), divisions.data(), divisions.size(),
                                                 with.error());
  };
  with.ok(set({4}));
  for (const uint64_t each : with.settings().roundup_power2_divisions) EXPECT_EQ(each, 4);
  std::vector<uint64_t> slots(16, 0);
  slots[6] = 8;
  with.ok(set(slots));
  EXPECT_EQ(with.block_size_for(84 * MiB), 88 * MiB);
  EXPECT_EQ(with.settings().roundup_power2_divisions[5], 0);
  EXPECT_EQ(with.refused(set({3}), CACHALOT_ERROR_INVALID_ARGUMENT),
            "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
  EXPECT_EQ(with.refused(set({4, 4}), CACHALOT_ERROR_INVALID_ARGUMENT),
            "count is 2: divisions are for all sizes (1) or for each slot (16)");
  EXPECT_EQ(with.settings().roundup_power2_divisions[6], 8);
}

TEST(OneSetting, SaysWhichOptionsHarmEachOther) {
  SimAllocator with("max_split_size_mb:64");
  with.ok(cachalot_set_expandable_segments(with.get(), 1, with.error()));
  EXPECT_NE(with.take_log().find("can reserve memory without bound"), std::string::npos);
}

// Each thread writes one field and reads it back. With cachalot_set_settings, which writes back what
// has been read, threads undo each other's changes.
TEST(OneSetting, IsNotUndoneByThreadsThatSetOthers) {
  SimAllocator with;
  cachalot_allocator* const allocator = with.get();
  const auto read = [allocator] {
    cachalot_settings settings = {};
    settings.struct_size = sizeof settings;
    cachalot_get_settings(allocator, &settings, nullptr);
    return settings;
  };
  std::array<int, 4> lost{};
  const auto write = [&](size_t thread, auto set, auto get) {
    return std::thread([&lost, thread, set, get, read] {
      for (uint64_t i = 0; i < 2000; i++) {
        const bool worked = set(i) == CACHALOT_OK;
        if (!worked || get(read()) != i) lost[thread]++;
      }
    });
  };
  std::array<std::thread, 4> threads = {
      write(
          0,
          [=](uint64_t i) { return cachalot_set_max_split_size(allocator, 20 * MiB + i, nullptr); },
          [](const cachalot_settings& s) { return s.max_split_size - 20 * MiB; }),
      write(
          1,
          [=](uint64_t i) { return cachalot_set_roundup_bypass_threshold(allocator, i, nullptr); },
          [](const cachalot_settings& s) { return s.roundup_bypass_threshold; }),
      write(
          2, [=](uint64_t i) { return cachalot_set_pinned_max_cached_size(allocator, i, nullptr); },
          [](const cachalot_settings& s) { return s.pinned_max_cached_size; }),
      write(
          3,
          [=](uint64_t i) {
            const std::string config = "pinned_reserve_segment_size_mb:" + std::to_string(i + 1);
            return cachalot_update_config(allocator, config.c_str(), nullptr);
          },
          [](const cachalot_settings& s) { return s.pinned_reserve_segment_size_mb - 1; })};
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, (std::array<int, 4>{}));
}

// ---- Strings that leave alone what they do not name

constexpr const char* kAll =
    "max_split_size_mb:128,max_non_split_rounding_mb:64,garbage_collection_threshold:0.5,"
    "roundup_power2_divisions:[1:2,256:4],roundup_bypass_threshold_mb:512";

TEST(UpdateConfig, SetsWhatItNamesAndNothingElse) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.config = kAll, .release = release});
    cachalot_settings expected = with.settings();
    with.ok(cachalot_update_config(with.get(), "max_split_size_mb:64", with.error()));
    expected.max_split_size = 64 * MiB;
    EXPECT_TRUE(equal(with.settings(), expected));
    with.ok(cachalot_update_config(with.get(), "", with.error()));
    with.ok(cachalot_update_config(with.get(), "backend:native", with.error()));
    EXPECT_TRUE(equal(with.settings(), expected));
    with.ok(cachalot_update_config(
        with.get(), "release_lock_on_cudamalloc:True,garbage_collection_threshold:0.8",
        with.error()));
    expected.release_lock_on_cudamalloc = 1;
    expected.garbage_collection_threshold = 0.8;
    EXPECT_TRUE(equal(with.settings(), expected));
  }
}

TEST(UpdateConfig, LeavesTheLastStringAsItWas) {
  SimAllocator with(kAll);
  with.ok(cachalot_update_config(with.get(), "max_split_size_mb:64", with.error()));
  std::string text(200, '\0');
  size_t length = 0;
  with.ok(cachalot_get_config(with.get(), text.data(), text.size(), &length, with.error()));
  EXPECT_EQ(text.substr(0, length), kAll);
}

TEST(UpdateConfig, ReplacesAListAsAWhole) {
  SimAllocator with(kAll);
  with.ok(cachalot_update_config(with.get(), "roundup_power2_divisions:[512:8]", with.error()));
  SimAllocator fresh("roundup_power2_divisions:[512:8]");
  const cachalot_settings expected = fresh.settings();
  const cachalot_settings settings = with.settings();
  for (size_t i = 0; i < std::size(settings.roundup_power2_divisions); i++)
    EXPECT_EQ(settings.roundup_power2_divisions[i], expected.roundup_power2_divisions[i]) << i;
}

TEST(UpdateConfig, OfTheSegmentSizeTakesTheDefaultOfTheRoundingAlong) {
  SimAllocator with("max_split_size_mb:128");
  with.ok(cachalot_update_config(with.get(), "large_segment_size_mb:40", with.error()));
  EXPECT_EQ(with.settings().max_non_split_rounding_size, 40 * MiB);
  EXPECT_EQ(with.settings().max_split_size, 128 * MiB);
  with.ok(cachalot_update_config(
      with.get(), "max_non_split_rounding_mb:64,large_segment_size_mb:12", with.error()));
  EXPECT_EQ(with.settings().max_non_split_rounding_size, 64 * MiB);
}

TEST(UpdateConfig, WithAFaultChangesNothing) {
  SimAllocator with(kAll);
  const cachalot_settings before = with.settings();
  const std::pair<const char*, const char*> wrong[] = {
      {"max_split_size_mb:64,no_such_option:1",
       "Unrecognized key 'no_such_option' in Accelerator allocator config."},
      {"max_split_size_mb:64,garbage_collection_threshold:1",
       "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"},
      {"expandable_segments:True,large_segment_size_mb:200",
       "CachingAllocator option max_split_size_mb too small, must be >= 200"},
      {"max_split_size_mb:64,pinned_num_register_threads:3",
       "Number of register threads has to be power of 2, got 3"},
  };
  for (const auto& [config, text] : wrong) {
    EXPECT_EQ(with.refused(cachalot_update_config(with.get(), config, with.error()),
                           CACHALOT_ERROR_INVALID_ARGUMENT),
              text);
    EXPECT_TRUE(equal(with.settings(), before)) << config;
  }
  with.refused(cachalot_update_config(with.get(), "max_split_size_mb:64,backend:cudaMallocAsync",
                                      with.error()),
               CACHALOT_ERROR_INVALID_STATE);
  EXPECT_TRUE(equal(with.settings(), before));
}

TEST(UpdateConfig, OfTheAsyncBackendKeepsWhatTheAllocatorWasMadeWith) {
  SimAllocator with("backend:cudaMallocAsync,max_split_size_mb:64");
  with.ok(cachalot_update_config(with.get(), "garbage_collection_threshold:0.5", with.error()));
  EXPECT_EQ(with.settings().max_split_size, 64 * MiB);
  EXPECT_EQ(with.settings().garbage_collection_threshold, 0.5);
}

}  // namespace
}  // namespace cachalot_test
