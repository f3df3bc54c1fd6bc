// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays: small traces by hand, and recordings of our own random runs, which have to come back
// event by event and statistic by statistic. The recordings of PyTorch are replayed by the tests
// named replay.*.
#include "replay/replay.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "../sanitizers.h"
#include "base/error.h"
#include "base/text.h"
#include "replay/script_writer.h"
#include "trace_text.h"

namespace cachalot {
namespace {

// A replay that has ended, with what it needs to end well.
struct Replayed {
  std::shared_ptr<ReplayDevice> device;
  std::unique_ptr<Allocator> allocator;
  ReplayResult result;

  Replayed(const Trace& trace, ReplayOptions wishes) {
    const ReplayOptions options = resolve(trace, std::move(wishes), Release::k2_15);
    device = std::make_shared<ReplayDevice>(replay_device_options(trace, options));
    AllocatorOptions allocator_options = replay_allocator_options(options, device);
    allocator_options.check_every_call = true;
    allocator = std::make_unique<Allocator>(allocator_options);
    try {
      result = replay(trace, options, allocator.get(), device.get());
    } catch (...) {
      allocator->free_all();
      throw;
    }
  }
  ~Replayed() {
    if (allocator) allocator->free_all();
  }
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;

  const EventDifferences& differences() const { return result.differences; }
};

ReplayOptions exact() {
  ReplayOptions options;
  options.expect = true;
  return options;
}

struct Outcome {
  Status status = Status::kOk;
  std::string message;
};

Outcome outcome_of(const Trace& trace, ReplayOptions options = {}) {
  try {
    const Replayed replayed(trace, std::move(options));
  } catch (const Error& error) {
    return {error.status(), error.message()};
  }
  return {};
}

TEST(Replay, GivesRecordedAddressesOutInOrder) {
  const Trace trace = read_events(
      "S,10000000,2097152,0\na,10000000,512,0\n"
      "S,20000000,20971520,0\na,20000000,2000000,0\n"
      "q,10000000,512,0\nc,10000000,512,0\n"
      "a,10000000,100,0\n");
  const Replayed replayed(trace, exact());
  EXPECT_EQ(replayed.differences().count, 0u) << replayed.differences().actual;
  EXPECT_EQ(replayed.result.allocations, 3u);
  EXPECT_EQ(replayed.result.calls.segments, 2u);
  EXPECT_EQ(replayed.result.peak_reserved, 22 * MiB);
  EXPECT_EQ(replayed.result.peak_requested, 2000512u);
}

TEST(Replay, TellsTheFirstDifference) {
  const Trace trace =
      read_events("S,10000000,2097152,0\na,10000000,512,0\na,10000400,512,0\na,10000600,512,0\n");
  const Replayed replayed(trace, exact());
  EXPECT_EQ(replayed.differences().count, 2u);
  EXPECT_EQ(replayed.differences().first, 2u);
  EXPECT_EQ(replayed.differences().expected, "alloc 0x10000400, 512 bytes, stream 0x0");
  EXPECT_EQ(replayed.differences().actual, "alloc 0x10000200, 512 bytes, stream 0x0");
}

TEST(Replay, CountsEventsThatDidNotCome) {
  const Trace trace = read_events("S,10000000,2097152,0\na,10000000,512,0\nF,30000000,2097152,0\n");
  const Replayed replayed(trace, exact());
  EXPECT_EQ(replayed.differences().count, 1u);
  EXPECT_EQ(replayed.differences().first, 2u);
  EXPECT_EQ(replayed.differences().actual, "nothing");
}

TEST(Replay, CountsEventsThatCameAfterTheLastRecordedOne) {
  const Trace trace = read_events("a,10000000,512,0\n");
  const Replayed replayed(trace, exact());
  EXPECT_EQ(replayed.differences().count, 2u);
  EXPECT_EQ(replayed.differences().first, 0u);
}

TEST(Replay, FinishesWorkWhereALateFreeWasCompleted) {
  const Trace trace = read_events(
      "S,10000000,2097152,0\na,10000000,512,0\nq,10000000,512,0\n"
      "a,10000200,512,0\n"
      "c,10000000,512,0\na,10000000,512,0\n");
  const Replayed replayed(trace, exact());
  EXPECT_EQ(replayed.differences().count, 0u) << replayed.differences().actual;
}

TEST(Replay, EmptiesTheCacheOncePerRunOfReleases) {
  const Trace trace = read_events(
      "S,10000000,2097152,0\na,10000000,512,0\nS,20000000,20971520,0\na,20000000,2000000,0\n"
      "q,10000000,512,0\nc,10000000,512,0\nq,20000000,2000000,0\nc,20000000,2000000,0\n"
      "F,20000000,20971520,0\nF,10000000,2097152,0\n");
  const Replayed replayed(trace, exact());
  EXPECT_EQ(replayed.differences().count, 0u) << replayed.differences().actual;
  EXPECT_EQ(replayed.allocator->stats(0).num_sync_all_streams, 1);
  EXPECT_EQ(replayed.result.calls.given_back, 2u);
  EXPECT_EQ(replayed.result.calls.segments, 0u);
}

TEST(Replay, LeavesReleasesOnTheWayToMemoryToTheAllocator) {
  const Trace trace = read_text(
      "# {\"torch\": \"2.11\", \"warm_up\": 0, \"device_total\": 31457280,"
      " \"stats\": {\"num_alloc_retries\": 2}}\n"
      "S,10000000,20971520,0\na,10000000,20971520,0\nq,10000000,20971520,0\nc,10000000,20971520,0\n"
      "F,10000000,20971520,0\nS,10000000,25165824,0\na,10000000,25165824,0\n"
      "o,600000,104857600,0\n");
  const Replayed replayed(trace, exact());
  EXPECT_EQ(replayed.differences().count, 0u) << replayed.differences().actual;
  const Stats stats = replayed.allocator->stats(0);
  EXPECT_EQ(stats.num_alloc_retries, 2);
  EXPECT_EQ(stats.num_ooms, 1);
  EXPECT_EQ(replayed.result.out_of_memory, 1u);
}

TEST(Replay, IgnoresFreesOfRequestsThatFailed) {
  const Trace trace = read_events(
      "a,10000000,104857600,0\na,20000000,512,0\nq,10000000,104857600,0\nc,10000000,104857600,0\n"
      "q,20000000,512,0\na,30000000,104857600,0\nq,30000000,104857600,0\na,40000000,512,0\n");
  ReplayOptions options;
  options.capacity = 50 * MiB;
  const Replayed replayed(trace, options);
  EXPECT_EQ(replayed.result.allocations, 4u);
  EXPECT_EQ(replayed.result.out_of_memory, 2u);
}

TEST(Replay, WarmsUpAsTheRecordedProcessDid) {
  Trace trace = read_events("S,10000000,2097152,0\na,10000000,512,0\n");
  trace.header.warm_up = 4;
  const Replayed replayed(trace, exact());
  EXPECT_EQ(replayed.differences().count, 0u);
  EXPECT_EQ(replayed.allocator->stats(0).num_device_alloc, 2);
  EXPECT_EQ(replayed.allocator->stats(0).requested_bytes.all.freed, 4);
}

TEST(Replay, TakesOtherOptionsAndReleases) {
  const Trace trace = read_events("a,10000000,1048577,0\n");
  ReplayOptions options;
  options.config = "large_segment_size_mb:40";
  options.release = Release::k2_15;
  EXPECT_EQ(Replayed(trace, options).result.peak_reserved, 40 * MiB);
  EXPECT_EQ(Replayed(trace, {}).result.peak_reserved, 20 * MiB);
}

TEST(Replay, KeepsToTheMemoryFraction) {
  const Trace trace = read_events("a,10000000,62914560,0\n");
  ReplayOptions options;
  options.capacity = 100 * MiB;
  EXPECT_EQ(Replayed(trace, options).result.out_of_memory, 0u);
  options.fraction = 0.5;
  EXPECT_EQ(Replayed(trace, options).result.out_of_memory, 1u);
  options.fraction = 1.5;
  EXPECT_EQ(outcome_of(trace, options).status, Status::kInvalidArgument);
}

TEST(Replay, WithExpectationsNeedsTheRecordedOptionsAndRelease) {
  const Trace trace = read_events("");
  ReplayOptions options = exact();
  options.config = "max_split_size_mb:64";
  EXPECT_EQ(outcome_of(trace, options).message, "expect needs the recorded options, \"\"");
  options = exact();
  options.release = Release::k2_15;
  EXPECT_EQ(outcome_of(trace, options).message, "expect needs the recorded release, 2.11.0+cu130");
  options.release = Release::k2_11;
  options.config = "";
  EXPECT_EQ(outcome_of(trace, options).status, Status::kOk);
}

TEST(Replay, RefusesATraceThatCannotHaveHappened) {
  const Outcome outcome = outcome_of(read_events("q,200,1,0\n"));
  EXPECT_EQ(outcome.status, Status::kIo);
  EXPECT_EQ(outcome.message, "line 2: 0x200 is freed but is not live");
}

TEST(Replay, RefusesADeviceThatIsTooLarge) {
  ReplayOptions options;
  options.capacity = kLargestSimCapacity;
  EXPECT_EQ(outcome_of(read_events(""), options).status, Status::kOk);
  options.capacity++;
  const Outcome outcome = outcome_of(read_events(""), options);
  EXPECT_EQ(outcome.status, Status::kInvalidArgument);
  EXPECT_EQ(outcome.message,
            "a device of 4398046511105 bytes: at most 4398046511104 (4 TiB) can be simulated");
}

TEST(Replay, StopsWhenItIsTold) {
  ReplayOptions options;
  options.progress = [](uint64_t done, uint64_t total) {
    EXPECT_EQ(done, 1u);
    EXPECT_EQ(total, 1u);
    return false;
  };
  const Outcome outcome = outcome_of(read_events("a,200,1,0\n"), options);
  EXPECT_EQ(outcome.status, Status::kCallback);
  EXPECT_EQ(outcome.message, "the replay was stopped after 1 of 1 events");
}

// The work of the late free is done where its `c` stands.
TEST(Replay, TellsAnObserverWhatEachEventLedTo) {
  const Trace trace = read_events(
      "a,200,512,0\na,400,512,0\nq,200,512,0\ns,0,512,0\nc,200,512,0\nq,400,512,0\nc,400,512,0\n");
  std::string seen;
  ReplayOptions options;
  options.observer = [&](size_t event, const TraceEntry& entry) {
    seen += format("%zu %s %llu\n", event, action_name(entry.action),
                   static_cast<unsigned long long>(entry.size));
  };
  const Replayed replayed(trace, options);
  EXPECT_EQ(seen,
            "0 segment_alloc 2097152\n0 alloc 512\n1 alloc 512\n2 free_requested 512\n"
            "4 free_completed 512\n5 free_requested 512\n5 free_completed 512\n");
}

TEST(Replay, ReplaysAsManyEventsAsItIsTold) {
  const Trace trace = read_events("a,200,512,0\na,400,512,0\nq,200,512,0\nc,200,512,0\n");
  const auto live_behind = [&](size_t count) {
    ReplayOptions options;
    options.event_count = count;
    return Replayed(trace, options).allocator->live_blocks();
  };
  EXPECT_EQ(live_behind(1), 1u);
  EXPECT_EQ(live_behind(2), 2u);
  EXPECT_EQ(live_behind(3), 1u);
  EXPECT_EQ(live_behind(0), 1u) << "all";
  EXPECT_EQ(live_behind(100), 1u) << "there are no more";
}

TEST(Replay, DoesNotPlaceSegmentsOverEachOther) {
  // Whatever a file claims, the second and third segment cannot lie inside the first.
  const Trace trace = read_events(
      "S,10000000,2097152,0\na,10000000,31457280,0\nS,10200000,2097152,0\na,10200000,512,0\n"
      "S,fff00000,2097152,0\na,fff00000,2097152,0\nS,0,2097152,0\na,10400000,31457280,0\n"
      "S,fffffffffff00000,2097152,0\na,10600000,31457280,0\n"
      "S,10000200,2097152,0\na,10800000,31457280,0\n");
  const Replayed replayed(trace, exact());
  EXPECT_GT(replayed.differences().count, 0u);
  EXPECT_EQ(replayed.allocator->check(), "");
}

Trace trace_of_format_2(const std::string& events) {
  return read_text("# {\"format\": 2}\n" + events);
}

TEST(ReplayOfFormat2, BeginsWithTheBlocksThatWereLive) {
  const Replayed replayed(
      trace_of_format_2("b,200,1048576,0\na,100200,512,0\nq,200,1048576,0\nc,200,1048576,0\n"), {});
  EXPECT_EQ(replayed.result.peak_allocated, 1048576u + 512u);
  EXPECT_EQ(replayed.allocator->stats(0).allocated_bytes.all.current, 512);
}

TEST(ReplayOfFormat2, FreesAllBlocksOfADeviceWhoseContextEnds) {
  const Replayed replayed(trace_of_format_2("a,200,512,0\na,200,512,0,1\na,400,512,0\nq,400,512,0\n"
                                            "x,0,0,0\na,400,2097152,0\n"),
                          {});
  EXPECT_EQ(replayed.allocator->stats(0).allocated_bytes.all.current, 2097152);
  EXPECT_EQ(replayed.allocator->stats(0).num_device_free, 1) << "its cache went, too";
  EXPECT_EQ(replayed.allocator->stats(1).allocated_bytes.all.current, 512);
}

TEST(ReplayOfFormat2, KeepsTheCacheWhereAContextOfTheProgramsOwnEnds) {
  const Replayed replayed(trace_of_format_2("a,200,512,0\na,400,512,0\nq,400,512,0\nx,7f00,0,0\n"),
                          {});
  EXPECT_EQ(replayed.allocator->stats(0).allocated_bytes.all.current, 512);
  EXPECT_EQ(replayed.allocator->stats(0).num_device_free, 0);
}

TEST(ReplayOfFormat2, RecordsTheStreamThatFreesABlockOfAnother) {
  const auto events_of = [](const char* freed_on) {
    const Replayed replayed(trace_of_format_2(std::string("a,200,512,a0\nq,200,512,a0,,,,,,,,") +
                                              freed_on + "\nc,200,512,a0\n"),
                            {});
    return replayed.allocator->stats(0).active.all.current;
  };
  EXPECT_EQ(events_of("b0"), 1) << "until the next look at the stream's event";
  EXPECT_EQ(events_of("a0"), 0);
  EXPECT_EQ(events_of(""), 0);
}

TEST(ReplayOfFormat2, PassesOverWhatIsInNoCache) {
  const Replayed replayed(
      trace_of_format_2(
          "A,900,4096,0,,,,,10,l\nC,0,0,a0\ng,0,0,a0\nh,0,0,a0\nD,0,0,a0\nR,900,4096,0\n"
          "k,900,0,0,,,,,50,l\nw,0,0,a0\nW,0,0,0\ne,900,0,0\nz,0,0,0\n"),
      {});
  EXPECT_EQ(replayed.result.allocations, 0u);
  EXPECT_EQ(replayed.result.calls.obtained, 0u);
}

TEST(ReplayOfFormat2, GivesPrivatePoolsBackWithTheContext) {
  const Replayed replayed(trace_of_format_2("a,200,2097152,0,0,0:1\nx,0,0,0\n"), {});
  EXPECT_EQ(replayed.allocator->stats(0).reserved_bytes.all.current, 0);
}

TEST(ReplayOfFormat2, KeepsTheCacheWhereAFreeIsCompletedLate) {
  const Replayed replayed(
      trace_of_format_2("a,200,512,0\nq,200,512,0\nA,900,4096,0\nc,200,512,0\nC,0,0,a0\n"), {});
  EXPECT_EQ(replayed.allocator->stats(0).num_device_free, 0);
}

TEST(ReplayOfFormat2, IsNeverExact) {
  EXPECT_EQ(outcome_of(trace_of_format_2("a,200,512,0\n"), exact()).status,
            Status::kInvalidArgument);
}

TEST(Script, IsTheRunForTheOracle) {
  const Trace trace = read_events(
      "S,10000000,2097152,a0\na,10000000,512,a0\nq,10000000,512,a0\na,10000200,512,a0\n"
      "c,10000000,512,a0\na,10000000,100,0\nq,10000200,512,a0\nc,10000200,512,a0\n"
      "F,10000000,2097152,a0\n");
  std::string text;
  ReplayOptions options = exact();
  options.capacity = GiB;
  options.fraction = 0.5;
  write_script(trace, resolve(trace, options, Release::k2_15),
               [&](std::string_view bytes) { text += bytes; });
  EXPECT_EQ(text,
            "config \ndevice 1073741824 1\nfraction 0.5\naddresses 10000000\n"
            "a 1 512 0xa0\nwork 0xf000000\nr 1 0xf000000\nf 1\na 2 512 0xa0\nstep 0xf000000\n"
            "a 3 100 0x0\nf 2\nempty\nstats\n");
}

TEST(Script, HasOneDevice) {
  const Trace trace = read_events("s,0,0,0,1\n");
  const ReplayOptions options = resolve(trace, {}, Release::k2_15);
  EXPECT_THROW(write_script(trace, options, [](std::string_view) {}), Error);
}

struct RunOptions {
  Release release = Release::k2_15;
  std::string config = "";
  int devices = 1;
  uint64_t capacity = 4 * GiB;
  bool uses_pools = false;
  bool empties_cache = true;
  bool uses_side_streams = true;
};

// A program of random acts on an allocator whose history is recorded from the start.
class RandomRun {
 public:
  RandomRun(uint64_t seed, const RunOptions& options)
      : options_(options),
        random_(seed),
        device_(std::make_shared<SimDriver>(
            SimOptions{.capacity = options.capacity, .device_count = options.devices})) {
    AllocatorOptions allocator_options;
    allocator_options.driver = device_;
    allocator_options.config = options.config;
    allocator_options.rules = rules_of(options.release);
    allocator_ = std::make_unique<Allocator>(allocator_options);
    HistoryOptions history;
    history.enabled = true;
    history.max_entries = 1 << 20;
    allocator_->record_history(history);
    header_.torch = options.release == Release::k2_11 ? "2.11.0" : "2.15.0";
    header_.config = options.config;
    header_.device_total = options.capacity;
    header_.warm_up = 0;
  }
  ~RandomRun() { allocator_->free_all(); }
  RandomRun(const RandomRun&) = delete;
  RandomRun& operator=(const RandomRun&) = delete;

  void run(int steps) {
    for (int i = 0; i < steps; i++) step();
  }

  // The recording, as a file has it.
  Trace trace() {
    const auto rows = stat_names(allocator_->rules().has_rejection);
    const Stats stats = allocator_->stats(0);
    for (const StatName& row : rows) header_.stats.push_back({row.name, stat_value(stats, row)});
    std::string text;
    write_trace(header_, allocator_->snapshot({}, true).traces,
                [&](std::string_view bytes) { text += bytes; });
    return read_text(text);
  }

  Stats stats(int device) { return allocator_->stats(device); }

 private:
  struct Live {
    Address address;
    int device;
  };

  uint64_t below(uint64_t n) { return random_() % n; }
  int device() { return static_cast<int>(below(static_cast<uint64_t>(device_->device_count()))); }
  Stream side_stream() { return 0x5000 + 0x100 * below(3); }

  void step() {
    const uint64_t kind = below(100);
    if (kind < 50)
      allocate();
    else if (kind < 90)
      free_one();
    else if (kind < 96)
      device_->machine().finish_oldest(device(), side_stream());
    else if (kind < 99)
      device_->machine().finish_device(device());
    else if (options_.empties_cache)
      allocator_->empty_cache(device());
  }

  // The program routes each such request to its pool, and now and then gives the pool up for a new
  // one.
  Address allocate_in_pool(const Request& request) {
    const PoolId pool{0, pool_number_};
    if (!has_pool_) allocator_->pool_create(0, pool, {});
    has_pool_ = below(50) != 0;
    allocator_->pool_begin(0, pool, [](Stream) { return true; });
    const Address address = allocator_->allocate(request);
    allocator_->pool_end(0, pool);
    allocator_->pool_release(0, pool);
    if (has_pool_) return address;
    allocator_->pool_release(0, pool);
    pool_number_++;
    return address;
  }

  void allocate() {
    const uint64_t size = 1 + below(uint64_t{1} << (4 + below(22)));
    const int where = device();
    const Stream stream = 0x100 * below(2);
    const Request request{size, where, stream, stream};
    const bool in_pool = options_.uses_pools && where == 0 && below(5) == 0;
    try {
      const Address address = in_pool ? allocate_in_pool(request) : allocator_->allocate(request);
      live_.push_back({address, where});
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), Status::kOutOfMemory);
    }
  }

  void free_one() {
    if (live_.empty()) return;
    std::swap(live_[below(live_.size())], live_.back());
    const Live block = live_.back();
    live_.pop_back();
    for (uint64_t uses = options_.uses_side_streams ? below(4) / 2 : 0; uses > 0; uses--) {
      const Stream stream = side_stream();
      device_->machine().queue_work(block.device, stream);
      allocator_->record_stream(block.address, stream);
    }
    allocator_->free(block.address);
  }

  const RunOptions options_;
  std::mt19937_64 random_;
  std::shared_ptr<SimDriver> device_;
  std::unique_ptr<Allocator> allocator_;
  TraceHeader header_;
  std::vector<Live> live_;
  bool has_pool_ = false;
  uint64_t pool_number_ = 1;
};

// The first seed of a test: an argument, or another one each time.
uint64_t first_seed() {
  const char* const argument = std::getenv("CACHALOT_TEST_SEED");
  const uint64_t seed =
      argument != nullptr ? std::strtoull(argument, nullptr, 10) : std::random_device()();
  std::cout << "CACHALOT_TEST_SEED=" << seed << "\n";
  return seed;
}

void expect_equal_stats(const RunOptions& options, RandomRun* recorded, const Replayed& replayed) {
  // An emptying of the cache that gave nothing back waits for streams, but leaves no event.
  for (const StatName& row : stat_names(options.release != Release::k2_11)) {
    if (row.name == std::string_view("num_sync_all_streams")) continue;
    for (int device = 0; device < options.devices; device++)
      EXPECT_EQ(stat_value(replayed.allocator->stats(device), row),
                stat_value(recorded->stats(device), row))
          << row.name << " of device " << device;
  }
}

void expect_exact(const RunOptions& options) {
  const uint64_t first = first_seed();
  for (uint64_t seed = first; seed < first + 2; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + options.config);
    RandomRun recorded(seed, options);
    recorded.run(600);
    const Trace trace = recorded.trace();
    ASSERT_EQ(trace.flaw, "");
    const Replayed replayed(trace, exact());
    EXPECT_EQ(replayed.differences().count, 0u)
        << line_name(trace.line_of(replayed.differences().first)) << ": "
        << replayed.differences().expected << " / " << replayed.differences().actual;
    expect_equal_stats(options, &recorded, replayed);
  }
}

constexpr Release kReleases[] = {Release::k2_11, Release::k2_15};

TEST(OwnRecording, ReplaysExactly) {
  for (const Release release : kReleases) expect_exact({.release = release});
}

TEST(OwnRecording, ReplaysExactlyWithOptions) {
  expect_exact(
      {.release = Release::k2_11, .config = "max_split_size_mb:21,roundup_power2_divisions:4"});
  expect_exact({.config = "large_segment_size_mb:64"});
}

TEST(OwnRecording, ReplaysExactlyWithExpandableSegments) {
  for (const Release release : kReleases)
    expect_exact({.release = release, .config = "expandable_segments:True"});
}

TEST(OwnRecording, ReplaysExactlyWithPools) {
  for (const Release release : kReleases) expect_exact({.release = release, .uses_pools = true});
  expect_exact({.config = "expandable_segments:True", .uses_pools = true});
}

TEST(OwnRecording, ReplaysExactlyOnSeveralDevices) {
  expect_exact({.release = Release::k2_11, .devices = 3});
  expect_exact({.config = "expandable_segments:True", .devices = 2});
}

// A trace does not tell whether a request that found no memory waited for a block or found it free,
// nor whether the program emptied the cache before a request that needed memory.
TEST(OwnRecording, ReplaysExactlyWhereTheDeviceWasFull) {
  for (const Release release : kReleases)
    for (const char* config : {"", "expandable_segments:True"})
      expect_exact({.release = release,
                    .config = config,
                    .capacity = 100 * MiB,
                    .empties_cache = false,
                    .uses_side_streams = false});
}

// A file of events that are well formed, and of which frees fit hand-outs, but nothing else fits
// anything.
class RandomEvents {
 public:
  explicit RandomEvents(std::mt19937_64* random) : random_(*random) {}

  std::string text() {
    for (int i = 0; i < 300; i++) step();
    return text_;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  void step() {
    const uint64_t kind = below(5);
    if (kind == 0)
      live_.push_back(add('a', some_place(++blocks_, below(4))));
    else if (kind == 1)
      move_one(&live_, 'q', &freed_);
    else if (kind == 2)
      move_one(&freed_, 'c', nullptr);
    else
      add("SFMUson"[below(7)], some_place(below(64), below(50) == 0));
  }

  // Different numbers lie at different addresses, often on top of each other.
  std::string some_place(uint64_t number, uint64_t end) {
    const char* const ends[] = {"", ",,0:1", ",1", ",1,7:0"};
    return format("%llx,%llu,%llx", static_cast<unsigned long long>((1 + number) << 15),
                  static_cast<unsigned long long>(1 + below(uint64_t{1} << below(27))),
                  static_cast<unsigned long long>(below(3) * 0xf000000)) +
           ends[end];
  }

  std::string add(char action, const std::string& fields) {
    text_ += action + ("," + fields + "\n");
    return fields;
  }

  void move_one(std::vector<std::string>* from, char action, std::vector<std::string>* to) {
    if (from->empty()) return;
    std::swap((*from)[below(from->size())], from->back());
    add(action, from->back());
    if (to != nullptr) to->push_back(from->back());
    from->pop_back();
  }

  std::mt19937_64& random_;
  std::string text_;
  uint64_t blocks_ = 0;
  std::vector<std::string> live_;
  std::vector<std::string> freed_;
};

TEST(Replay, SurvivesWhatCannotHaveHappened) {
  constexpr int kRounds = CACHALOT_HEAP_IS_SANITIZED ? 40 : 100;
  std::mt19937_64 random(first_seed());
  int replays = 0;
  for (int round = 0; round < kRounds; round++) {
    const std::string config = round % 2 == 0 ? "" : "expandable_segments:True";
    Trace trace = read_events(RandomEvents(&random).text());
    trace.header.config = config;
    trace.header.torch = round % 4 < 2 ? "2.11" : "2.15";
    trace.header.device_total = round % 3 == 0 ? 64 * MiB : 0;
    ReplayOptions options;
    options.expect = round % 5 != 0;
    const Status status = outcome_of(trace, options).status;
    EXPECT_TRUE(status == Status::kOk || status == Status::kIo) << static_cast<int>(status);
    replays += status == Status::kOk;
  }
  EXPECT_GT(replays, kRounds * 3 / 10);
}

}  // namespace
}  // namespace cachalot
