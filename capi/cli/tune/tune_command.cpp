// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tune_command.h"

#include <CLI/CLI.hpp>

#include "../numbers.h"
#include "../option_value.h"
#include "../page_file.h"
#include "tune_page.h"
#include "tune_report.h"

namespace cachalot::cli {

void add_tune_command(CLI::App* app, TuneCall* call) {
  CLI::App* const tune = app->add_subcommand("tune",
                                             "Find the options that a program needs: the smallest "
                                             "device and the price under many strings");
  tune->add_option("FILE", call->files, "Recorded runs: plain, .gz or .xz")->required();
  add_capacity_option(tune, "--capacity", &call->capacity,
                      "Memory of the device, like 24GiB [the recorded one]");
  add_capacity_option(tune, "--reserve", &call->reserve,
                      "What others take of it, like 600MiB [none]");
  tune->add_option("--release", call->release,
                   "Release whose decisions are made [the recorded one]")
      ->check(CLI::IsMember({"2.11", "2.15"}));
  tune->add_option("--config", call->configs,
                   "An option string to be looked at as well; may be repeated")
      ->allow_extra_args(false);
  tune->add_option("--policy", call->policies,
                   "Likewise a policy of cachalot's, like serving,thrift")
      ->allow_extra_args(false);
  tune->add_flag("--only", call->only_these, "Look at the strings of --config and --policy only");
  tune->add_option("--check", call->held_back,
                   "A run of the same program that the advice is checked with")
      ->allow_extra_args(false);
  tune->add_option(
      "--costs", call->costs,
      "What the driver's calls cost: H100, H200, or a file of cachalot measure [H100]");
  tune->add_option("--strings", call->search.strings,
                   "Strings that the search tries for each run; 0: none [160]")
      ->check(CLI::Range(size_t{0}, size_t{1000000}));
  tune->add_option("--seed", call->search.seed, "Of the search [1]");
  tune->add_option("--threads", call->threads, "[one a core]")->check(CLI::Range(1U, 4096U));
  tune->add_flag("--json", call->json, "The answer as one JSON object");
  tune->add_option("-o,--output", call->output,
                   "The answer as a page too, with the recorded run under the defaults and under "
                   "the string to take [none]");
}

ExitCode run_tune_command(const TuneCall& call) {
  const Cancellation cancellation;
  if (!call.output.empty()) check_page_file(call.output);
  const DriverCosts costs = DriverCosts::of(call.costs);
  const TuneResult result = tune(call, costs);
  if (call.json)
    print_tuned_json(result, costs);
  else
    print_tuned(result, costs);
  if (!call.output.empty())
    write_page(call.output, tune_page(result, costs), call.json ? stderr : stdout);
  return kAsExpected;
}

}  // namespace cachalot::cli
