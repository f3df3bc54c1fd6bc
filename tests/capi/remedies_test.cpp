// SPDX-License-Identifier: MIT OR Apache-2.0
// The line behind the reference's out-of-memory text: what it names must be so, and an option that it
// names must really make room for the same requests.
#include <functional>
#include <optional>
#include <random>

#include "../sanitizers.h"
#include "../test_seed.h"
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

// Requests of which the last one is looked at.
using Requests = std::function<Outcome(SimAllocator&)>;

// Our line of a request that must fail.
std::string line_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  const std::string text = outcome.message();
  const size_t start = text.rfind('\n');
  EXPECT_NE(start, std::string::npos) << text;
  return text.substr(start + 1);
}

std::string line_of(const SimSetup& setup, const Requests& requests) {
  SimAllocator with(setup);
  return line_of(requests(with));
}

void expect_served(const SimSetup& setup, const Requests& requests) {
  SimAllocator with(setup);
  const Outcome outcome = requests(with);
  EXPECT_EQ(outcome.status, CACHALOT_OK) << outcome.message();
}

// ---- The largest free block

TEST(OutOfMemoryLine, SaysThatThereIsNoFreeBlock) {
  const Requests requests = [](SimAllocator& with) {
    with.allocate(100 * MiB);
    return with.try_allocate(20 * MiB);
  };
  EXPECT_EQ(line_of({.capacity = 100 * MiB}, requests), "cachalot: there is no free block.");
}

TEST(OutOfMemoryLine, NamesTheLargestFreeBlock) {
  const Requests requests = [](SimAllocator& with) {
    with.allocate(8 * MiB);
    return with.try_allocate(100 * MiB);
  };
  EXPECT_EQ(line_of({.capacity = 100 * MiB}, requests),
            "cachalot: the largest free block is 12.00 MiB.");
}

TEST(OutOfMemoryLine, NamesTheLargestFreeBlockOfThePoolAndStreamToo) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  with.allocate(8 * MiB);
  EXPECT_EQ(line_of(with.try_allocate(100 * MiB, 0x10)),
            "cachalot: the largest free block is 12.00 MiB, and there is none of this request's "
            "pool and stream.");
  with.allocate(9 * MiB, 0x10);
  EXPECT_EQ(line_of(with.try_allocate(100 * MiB, 0x10)),
            "cachalot: the largest free block is 12.00 MiB, of this request's pool and stream "
            "11.00 MiB.");
}

// ---- expandable_segments

const Requests kFragmented = [](SimAllocator& with) {
  with.free(with.allocate(900 * MiB));
  with.allocate(100 * MiB);
  return with.try_allocate(850 * MiB);
};

TEST(Remedy, ExpandableSegmentsJoinFreePieces) {
  for (const int32_t release : kReleases) {
    SimSetup setup{.release = release, .capacity = 1000 * MiB};
    EXPECT_EQ(line_of(setup, kFragmented),
              "cachalot: the largest free block is 800.00 MiB; "
              "CACHALOT_ALLOC_CONF=expandable_segments:True would have made room: 780.00 MiB lies "
              "in whole free pages of segments in use.");
    setup.config = "expandable_segments:True";
    expect_served(setup, kFragmented);
  }
}

TEST(Remedy, ExpandableSegmentsAreNotNamedForPiecesSmallerThanAPage) {
  const Requests requests = [](SimAllocator& with) {
    std::vector<cachalot_address> blocks;
    for (int i = 0; i < 10; i++) blocks.push_back(with.allocate(9 * MiB));
    for (size_t i = 0; i < blocks.size(); i += 2) with.free(blocks[i]);
    return with.try_allocate(20 * MiB);
  };
  SimSetup setup{.capacity = 100 * MiB};
  EXPECT_EQ(line_of(setup, requests), "cachalot: the largest free block is 9.00 MiB.");
  setup.config = "expandable_segments:True";
  EXPECT_EQ(line_of(setup, requests), "cachalot: the largest free block is 10.00 MiB.");
}

TEST(Remedy, ExpandableSegmentsAreNotNamedWhereTheirReserveIsTooSmall) {
  SimSetup setup{.config = "expandable_segments_reserve:0.1", .capacity = 1000 * MiB};
  EXPECT_EQ(line_of(setup, kFragmented), "cachalot: the largest free block is 800.00 MiB.");
  setup.config = "expandable_segments:True,expandable_segments_reserve:0.1";
  SimAllocator with(setup);
  EXPECT_NE(with.try_allocate(850 * MiB).status, CACHALOT_OK);
}

TEST(Remedy, ExpandableSegmentsAreNotNamedWhereTheDriverFailsForAnotherReason) {
  SimAllocator with(SimSetup{.capacity = 2000 * MiB});
  with.free(with.allocate(900 * MiB));
  with.allocate(100 * MiB);
  with.fail_allocations(2);
  EXPECT_EQ(line_of(with.try_allocate(850 * MiB)),
            "cachalot: the largest free block is 800.00 MiB.");
}

// ---- Limits

const Requests kMoreThan300 = [](SimAllocator& with) {
  with.allocate(100 * MiB);
  return with.try_allocate(300 * MiB);
};

TEST(Remedy, IsALimitLessThatWasSetByCall) {
  const Requests limited = [](SimAllocator& with) {
    with.set_limit(300 * MiB);
    return kMoreThan300(with);
  };
  EXPECT_EQ(line_of({.capacity = 600 * MiB}, limited),
            "cachalot: there is no free block; no limit of 300.00 MiB "
            "(cachalot_set_memory_fraction, cachalot_set_memory_limit) would have made room: "
            "500.00 MiB is free on the device.");
  expect_served({.capacity = 600 * MiB}, kMoreThan300);
}

TEST(Remedy, IsALimitLessThatTheOptionSet) {
  for (const int32_t release : kReleases) {
    SimSetup setup{
        .config = "per_process_memory_fraction:0.5", .release = release, .capacity = 601 * MiB};
    EXPECT_EQ(line_of(setup, kMoreThan300),
              "cachalot: there is no free block; CACHALOT_ALLOC_CONF without "
              "per_process_memory_fraction:0.5 would have made room: 501.00 MiB is free on the "
              "device.");
    setup.config = "";
    expect_served(setup, kMoreThan300);
  }
}

TEST(Remedy, IsNoLimitLessWhereTheDeviceHasNoMoreEither) {
  const Requests limited = [](SimAllocator& with) {
    with.set_limit(300 * MiB);
    return kMoreThan300(with);
  };
  EXPECT_EQ(line_of({.capacity = 390 * MiB}, limited), "cachalot: there is no free block.");
}

TEST(Remedy, IsNoLimitLessWhereTheRejectionStays) {
  SimAllocator with(SimSetup{.config = "throw_on_cudamalloc_oom:True", .capacity = 600 * MiB});
  with.set_limit(300 * MiB);
  with.configure("per_process_memory_fraction:0.4,throw_on_cudamalloc_oom:True");
  EXPECT_EQ(line_of(kMoreThan300(with)), "cachalot: there is no free block.");
}

// ---- roundup_power2_divisions

TEST(Remedy, IsToRoundNoMoreThanNeeded) {
  const Requests requests = [](SimAllocator& with) { return with.try_allocate(600 * MiB); };
  SimSetup setup{.config = "roundup_power2_divisions:2", .capacity = 700 * MiB};
  EXPECT_EQ(line_of(setup, requests),
            "cachalot: there is no free block; CACHALOT_ALLOC_CONF without "
            "roundup_power2_divisions would have made room: 600.00 MiB was rounded up to 768.00 "
            "MiB.");
  setup.config = "";
  expect_served(setup, requests);
}

TEST(Remedy, IsToUseTheCachedBlockThatTheRoundedRequestMisses) {
  const Requests requests = [](SimAllocator& with) {
    with.begin_pool(SimAllocator::user_pool(1));
    with.free(with.allocate(512 * MiB + 100 * MiB));  // rounded to 768
    with.configure("roundup_power2_divisions:2");
    return with.try_allocate(520 * MiB);
  };
  SimSetup setup{.capacity = 700 * MiB};
  EXPECT_EQ(line_of(setup, requests),
            "cachalot: the largest free block is 612.00 MiB; CACHALOT_ALLOC_CONF without "
            "roundup_power2_divisions would have made room: 520.00 MiB was rounded up to 768.00 "
            "MiB.");
}

TEST(Remedy, IsNotToRoundWhereTheExactSizeDoesNotFitEither) {
  const Requests requests = [](SimAllocator& with) { return with.try_allocate(600 * MiB); };
  EXPECT_EQ(line_of({.config = "roundup_power2_divisions:2", .capacity = 599 * MiB}, requests),
            "cachalot: there is no free block.");
}

// ---- max_split_size_mb

TEST(Remedy, IsToSplitTheBlockThatIsTooLargeForTheRequest) {
  for (const int32_t release : kReleases) {
    std::string config = "max_split_size_mb:200";
    const Requests requests = [&](SimAllocator& with) {
      with.free(with.allocate(400 * MiB));
      with.allocate(100 * MiB);
      with.configure(config);
      return with.try_allocate(150 * MiB);
    };
    const SimSetup setup{.release = release, .capacity = 500 * MiB};
    EXPECT_EQ(line_of(setup, requests),
              "cachalot: the largest free block is 300.00 MiB; CACHALOT_ALLOC_CONF without "
              "max_split_size_mb would have used the free block of 300.00 MiB; "
              "CACHALOT_ALLOC_CONF=expandable_segments:True would have made room: 280.00 MiB lies "
              "in whole free pages of segments in use.");
    config = "";
    expect_served(setup, requests);
    expect_served({.config = "expandable_segments:True", .release = release, .capacity = 500 * MiB},
                  [&](SimAllocator& with) {
                    config = "max_split_size_mb:200";
                    return requests(with);
                  });
  }
}

// ---- throw_on_cudamalloc_oom

const Requests kCached60 = [](SimAllocator& with) {
  with.free(with.allocate(60 * MiB));
  return with.try_allocate(70 * MiB);
};

TEST(Remedy, IsToReleaseCachedMemoryInsteadOfRejecting) {
  SimSetup setup{.config = "throw_on_cudamalloc_oom:True", .capacity = 100 * MiB};
  EXPECT_EQ(line_of(setup, kCached60),
            "cachalot: the largest free block is 60.00 MiB; CACHALOT_ALLOC_CONF without "
            "throw_on_cudamalloc_oom would have made room by giving 60.00 MiB of cached memory "
            "back first.");
  setup.config = "";
  expect_served(setup, kCached60);
}

TEST(Remedy, IsToReleaseFreePagesInsteadOfRejecting) {
  const Requests requests = [](SimAllocator& with) {
    with.free(with.allocate(60 * MiB, 0x10));
    return with.try_allocate(80 * MiB);
  };
  SimSetup setup{.config = "expandable_segments:True,throw_on_cudamalloc_oom:True",
                 .capacity = 100 * MiB};
  EXPECT_TRUE(
      line_of(setup, requests).ends_with("by giving 60.00 MiB of cached memory back first."));
  setup.config = "expandable_segments:True";
  expect_served(setup, requests);
}

TEST(Remedy, IsNotToReleaseWhatIsTooLittle) {
  const Requests requests = [](SimAllocator& with) {
    with.allocate(40 * MiB);
    with.free(with.allocate(20 * MiB));
    return with.try_allocate(70 * MiB);
  };
  EXPECT_EQ(line_of({.config = "throw_on_cudamalloc_oom:True", .capacity = 100 * MiB}, requests),
            "cachalot: the largest free block is 20.00 MiB.");
}

// ---- expandable_segments_reserve

TEST(Remedy, IsALargerReserve) {
  const Requests requests = [](SimAllocator& with) { return with.try_allocate(200 * MiB); };
  SimSetup setup{.config = "expandable_segments:True,expandable_segments_reserve:0.1",
                 .capacity = 1000 * MiB};
  EXPECT_EQ(line_of(setup, requests),
            "cachalot: there is no free block; a larger expandable_segments_reserve in "
            "CACHALOT_ALLOC_CONF would have made room: 1000.00 MiB is free on the device.");
  setup.config = "expandable_segments:True,expandable_segments_reserve:0.2";
  expect_served(setup, requests);
}

TEST(Remedy, IsALargerReserveOfTheClass) {
  const Requests requests = [](SimAllocator& with) {
    with.ok(cachalot_set_reserve_class(with.get(), 0x10, "tiny", with.error()));
    return with.try_allocate(200 * MiB, 0x10);
  };
  SimSetup setup{
      .config = "expandable_segments:True,expandable_segments_reserve_by_class:[tiny:0.05]",
      .capacity = 1000 * MiB};
  EXPECT_EQ(line_of(setup, requests),
            "cachalot: there is no free block; a larger expandable_segments_reserve_by_class in "
            "CACHALOT_ALLOC_CONF would have made room: 1000.00 MiB is free on the device.");
  setup.config = "expandable_segments:True,expandable_segments_reserve_by_class:[tiny:0.2]";
  expect_served(setup, requests);
}

// ---- Random requests

struct FailedStep {
  uint64_t number;
  Outcome outcome;
};

// Requests and frees until the first one fails.
std::optional<FailedStep> run_until_failure(SimAllocator& with, uint64_t seed, uint64_t steps) {
  std::mt19937_64 random(seed);
  std::vector<cachalot_address> live;
  for (uint64_t i = 0; i < steps; i++) {
    const uint64_t choice = random();
    const uint64_t size = uint64_t{512} << random() % 20;
    const cachalot_stream stream = 0x10 * (random() % 2);
    if (choice % 2 == 0 && !live.empty()) {
      std::swap(live[choice / 2 % live.size()], live.back());
      with.free(live.back());
      live.pop_back();
      continue;
    }
    const Outcome outcome = with.try_allocate(size + random() % size, stream);
    if (outcome.status != CACHALOT_OK) return FailedStep{i, outcome};
    live.push_back(outcome.address);
  }
  return std::nullopt;
}

// Not for all: with the option other blocks are neighbours. One in 700 was measured.
TEST(Remedy, OfExpandableSegmentsHoldsForAllButOneInFiftyOfRandomRequests) {
  constexpr uint64_t kSteps = 400;
  constexpr uint64_t kRuns = CACHALOT_HEAP_IS_SANITIZED ? 50 : 200;
  const uint64_t seed = cachalot::test_seed();
  int named = 0;
  int in_vain = 0;
  std::string example;
  for (uint64_t run = 0; run < kRuns; run++) {
    SimSetup setup{.capacity = 2000 * MiB};
    SimAllocator plain(setup);
    const auto failed = run_until_failure(plain, seed + run, kSteps);
    if (!failed || line_of(failed->outcome).find("expandable_segments:True") == std::string::npos)
      continue;
    named++;
    setup.config = "expandable_segments:True";
    SimAllocator expandable(setup);
    const auto again = run_until_failure(expandable, seed + run, kSteps);
    if (!again || again->number > failed->number) continue;
    in_vain++;
    example = "seed " + std::to_string(seed + run) + ": " + failed->outcome.message();
  }
  EXPECT_GT(named, 0);
  EXPECT_LE(in_vain, std::max(1, named / 50)) << example;
}

}  // namespace
}  // namespace cachalot_test
