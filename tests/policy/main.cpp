// SPDX-License-Identifier: MIT OR Apache-2.0
// Random scripts, or a recorded run, through the serving policy and through a model of its rules.
//
// Each random run has a seed of its own, the first one that of the program. Exit status: 0, or 1 where the two
// differ. With a fault in the model 0 where it is found.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <random>
#include <stdexcept>

#include "base/units.h"
#include "recording.h"
#include "replay/trace_file.h"
#include "script.h"
#include "wide.h"

namespace cachalot::policy_model {
namespace {

constexpr uint64_t kOperationsOfRun = 1'000;

struct Arguments {
  std::optional<uint64_t> seed;
  uint64_t operations = 100'000;
  uint64_t runs = UINT64_MAX;
  std::string fault;
  bool tells = false;
  std::string recording;
  uint64_t capacity_mib = 0;
  bool thrift = false;
};

void print(const Tally& tally, uint64_t runs, double seconds) {
  std::printf("%llu operations in %llu runs, %.1f s of the processor (%.0f a second)\n",
              wide(tally.operations), wide(runs), seconds,
              static_cast<double>(tally.operations) / seconds);
  std::printf("  %llu hand-outs, %llu times out of memory, %llu other failures\n",
              wide(tally.hand_outs), wide(tally.out_of_memory), wide(tally.other_failures));
  std::printf(
      "  pages made %llu, unmapped %llu, released %llu; waits of streams %llu, of the host %llu\n",
      wide(tally.pages_made), wide(tally.pages_unmapped), wide(tally.pages_released),
      wide(tally.stream_waits), wide(tally.host_waits));
}

int run(const Arguments& arguments, Fault fault) {
  const uint64_t seed = arguments.seed ? *arguments.seed : test_seed(std::random_device{}());
  const std::clock_t begin = std::clock();
  Tally tally;
  uint64_t runs = 0;
  for (; runs < arguments.runs && tally.operations < arguments.operations; runs++) {
    Script script(seed + runs, fault, arguments.tells);
    const std::string found = script.run(kOperationsOfRun);
    tally.add(script.tally());
    if (found.empty()) continue;
    std::printf("%s  again: cachalot_policy_model --runs 1 --seed %llu\n", found.c_str(),
                wide(seed + runs));
    return fault == Fault::kNone ? 1 : 0;
  }
  print(tally, runs, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  return fault == Fault::kNone ? 0 : 1;
}

int run_recording(const Arguments& arguments, Fault fault) {
  std::ifstream file(arguments.recording, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + arguments.recording);
  const Trace trace = read_trace([&](char* buffer, size_t capacity) {
    file.read(buffer, static_cast<std::streamsize>(capacity));
    return static_cast<size_t>(file.gcount());
  });
  const std::clock_t begin = std::clock();
  Recording recording(trace, arguments.capacity_mib * MiB, arguments.thrift, fault);
  const std::string found = recording.run();
  std::printf("%s", found.c_str());
  if (found.empty())
    print(recording.tally(), 1, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  return found.empty() == (fault == Fault::kNone) ? 0 : 1;
}

int main_with(int count, char** words) {
  Arguments arguments;
  CLI::App app{
      "Random scripts, or a recorded run, through the serving policy and through a model of its "
      "rules."};
  app.add_option("--seed", arguments.seed,
                 "of the first run; else CACHALOT_TEST_SEED, else a new one");
  app.add_option("--operations", arguments.operations, "in all runs together");
  app.add_option("--runs", arguments.runs, "at most");
  app.add_option("--fault", arguments.fault, "breaks a rule of the model: it has to be found");
  app.add_flag("--tell", arguments.tells, "each operation before it is done");
  CLI::Option* const recording = app.add_option("--recording", arguments.recording,
                                                "a trace, not compressed, instead of scripts");
  recording->needs(
      app.add_option("--capacity", arguments.capacity_mib, "of the recording's device, in MiB"));
  app.add_flag("--thrift", arguments.thrift, "for the recording")->needs(recording);
  CLI11_PARSE(app, count, words);
  const std::optional<Fault> fault = fault_of(arguments.fault);
  if (!fault && !arguments.fault.empty()) {
    std::fprintf(stderr, "no such fault: %s\n", arguments.fault.c_str());
    return 2;
  }
  const auto run_it = arguments.recording.empty() ? run : run_recording;
  return run_it(arguments, fault.value_or(Fault::kNone));
}

}  // namespace
}  // namespace cachalot::policy_model

int main(int count, char** words) {
  try {
    return cachalot::policy_model::main_with(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cachalot_policy_model: %s\n", error.what());
    return 2;
  }
}
