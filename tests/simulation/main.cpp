// SPDX-License-Identifier: MIT OR Apache-2.0
// Deterministic simulation: seeded runs of worlds (world.h), under all options, both releases and
// both backends, with faults.
//
//   cachalot_simulation [--operations N] [--seed S] [--run R] [--audit-every K] [--tell 1]
//
// Runs of kStepsOfRun steps follow each other until N operations are done; run R of seed S alone is
// what a failure says. Exit status: 0, or the process is aborted.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "world.h"

namespace cachalot_test {
namespace {

constexpr uint64_t kStepsOfRun = 20'000;

struct Arguments {
  uint64_t operations = 400'000;
  uint64_t seed = 7;
  uint64_t run = UINT64_MAX;  // all
  uint64_t audit_every = 2'000;
  uint64_t tell = 0;  // 1: each step
  Plant plant = Plant::kNothing;
};

// Of the run that is under way, for report_defect.
struct {
  uint64_t seed;
  uint64_t run;
  std::string setup;
  bool is_planted;
} current;

const char* const kConfigs[] = {
    "",
    "max_split_size_mb:24,max_non_split_rounding_mb:22",
    "expandable_segments:True",
    "garbage_collection_threshold:0.5,per_process_memory_fraction:0.5",
    "roundup_power2_divisions:[1:4,16:8,>:2]",
    "graph_capture_record_stream_reuse:True",
    "release_lock_on_cudamalloc:True",
    "expandable_segments:True,max_split_size_mb:40,garbage_collection_threshold:0.6,"
    "graph_capture_record_stream_reuse:True",
    "release_lock_on_cudamalloc:True,max_split_size_mb:30,large_segment_size_mb:24",
    "backend:cudaMallocAsync",
};

const char* const kConfigsOfSleep[] = {
    "expandable_segments:True",
    "expandable_segments:True,release_lock_on_cudamalloc:True",
    "expandable_segments:True,max_split_size_mb:40,graph_capture_record_stream_reuse:True",
    "expandable_segments:True,large_segment_size_mb:12,per_process_memory_fraction:0.5",
};

WorldSetup setup_of(uint64_t run, const Arguments& arguments) {
  Choices choices(arguments.seed * 1'000'003 + run);
  WorldSetup setup;
  setup.release = run % 2 == 0 ? CACHALOT_RELEASE_2_15 : CACHALOT_RELEASE_2_11;
  setup.config = kConfigs[run / 2 % std::size(kConfigs)];
  setup.is_sim = choices.one_in(8);
  setup.has_faults = !choices.one_in(4);
  setup.refuses_returns = setup.has_faults && choices.one_in(6);
  setup.tracks_labels = choices.one_in(4);
  setup.mend = choices.one_in(4) ? static_cast<uint32_t>(choices.below(256)) : 0;
  setup.plant = arguments.plant;
  if (setup.plant != Plant::kNothing) setup.is_sim = setup.has_faults = false;
  setup.tells = arguments.tell != 0;
  setup.steps_between_audits = arguments.audit_every;
  setup.capacity = uint64_t{1024} << (20 + choices.below(5));
  setup.device_count = static_cast<int32_t>(choices.between(1, 3));
  setup.sleeps = run % 3 == 0;
  if (setup.sleeps) setup.config = choices.pick(kConfigsOfSleep);
  setup.shares_pages = choices.one_in(2);
  setup.has_fabric = choices.one_in(2);
  return setup;
}

std::string words_of(const WorldSetup& setup) {
  return "release " + std::to_string(setup.release) + ", options '" + setup.config + "'" +
         (setup.is_sim ? ", sim" : ", ledger") + ", mend " + std::to_string(setup.mend);
}

void run_one(uint64_t run, const Arguments& arguments, Tally* tally) {
  const WorldSetup setup = setup_of(run, arguments);
  current = {arguments.seed, run, words_of(setup), setup.plant != Plant::kNothing};
  Choices choices(arguments.seed * 999'999'937 + run);
  World world(setup, &choices, tally);
  world.run(kStepsOfRun);
  world.end();
}

void print(const Tally& tally, uint64_t runs, double seconds) {
  std::printf("%llu operations in %llu runs, %.1f s of the processor (%.2f million a second)\n",
              static_cast<unsigned long long>(tally.operations),
              static_cast<unsigned long long>(runs), seconds,
              static_cast<double>(tally.operations) / seconds / 1e6);
  std::printf("  %llu inside another call, %llu blocks handed out, %llu audits, %llu comparisons\n",
              static_cast<unsigned long long>(tally.interleaved),
              static_cast<unsigned long long>(tally.hand_outs),
              static_cast<unsigned long long>(tally.audits),
              static_cast<unsigned long long>(tally.comparisons));
  std::printf(
      "  %llu times a pool fell asleep, with %llu blocks, %llu times one woke, %llu operations "
      "beside "
      "that; %llu times memory was opened\n",
      static_cast<unsigned long long>(tally.sleeps), static_cast<unsigned long long>(tally.asleep),
      static_cast<unsigned long long>(tally.wakes),
      static_cast<unsigned long long>(tally.beside_sleep),
      static_cast<unsigned long long>(tally.opened));
  uint64_t faults = 0;
  std::string kinds;
  for (size_t i = 0; i < tally.faults.size(); i++) {
    faults += tally.faults[i];
    if (tally.faults[i] != 0)
      kinds += " " + std::to_string(i) + ":" + std::to_string(tally.faults[i]);
  }
  std::printf("  %llu faults, by bit of CACHALOT_SIM_CALL_*:%s\n",
              static_cast<unsigned long long>(faults), kinds.c_str());
  for (const auto& [status, count] : tally.errors)
    std::printf("  %s: %llu\n", cachalot_status_name(status),
                static_cast<unsigned long long>(count));
}

bool read_number(const char* text, uint64_t* number) {
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, *number);
  return error == std::errc() && stopped == end;
}

bool read_plant(const std::string& name, Plant* plant) {
  *plant = name == "overlap"       ? Plant::kOverlap
           : name == "leak"        ? Plant::kLeak
           : name == "early_reuse" ? Plant::kEarlyReuse
           : name == "lost_copy"   ? Plant::kLostCopy
           : name == "miscount"    ? Plant::kMiscount
                                   : Plant::kNothing;
  return *plant != Plant::kNothing;
}

bool read(int count, char** words, Arguments* arguments) {
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    if (name == "--plant" && i + 1 < count && read_plant(words[i + 1], &arguments->plant)) continue;
    uint64_t* const target = name == "--operations"    ? &arguments->operations
                             : name == "--seed"        ? &arguments->seed
                             : name == "--run"         ? &arguments->run
                             : name == "--audit-every" ? &arguments->audit_every
                             : name == "--tell"        ? &arguments->tell
                                                       : nullptr;
    if (target == nullptr || i + 1 == count || !read_number(words[i + 1], target)) return false;
  }
  return true;
}

int main_with(const Arguments& arguments) {
  Tally tally;
  const std::clock_t begin = std::clock();
  uint64_t runs = 0;
  if (arguments.run != UINT64_MAX) {
    run_one(arguments.run, arguments, &tally);
    runs = 1;
  } else {
    while (tally.operations < arguments.operations) run_one(runs++, arguments, &tally);
  }
  const auto time = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  print(tally, runs, time);
  return arguments.plant == Plant::kNothing ? 0 : 1;
}

}  // namespace

void report_defect(const std::string& what) {
  std::fprintf(stderr,
               "DEFECT: %s\n  %s\n  again: cachalot_simulation --seed %llu --run %llu "
               "--audit-every 1 --tell 1\n",
               what.c_str(), current.setup.c_str(), static_cast<unsigned long long>(current.seed),
               static_cast<unsigned long long>(current.run));
  if (current.is_planted) std::_Exit(0);
  std::abort();
}

}  // namespace cachalot_test

int main(int count, char** words) {
  cachalot_test::Arguments arguments;
  if (!cachalot_test::read(count, words, &arguments)) {
    std::fprintf(
        stderr,
        "cachalot_simulation [--operations N] [--seed S] [--run R] [--audit-every K] [--tell 1]\n");
    return 2;
  }
  return cachalot_test::main_with(arguments);
}
