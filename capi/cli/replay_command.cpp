// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "option_value.h"
#include "options_check.h"
#include "report.h"

namespace cachalot::cli {
namespace {

ExitCode run_one(const std::string& file, const ReplayCall& call, std::vector<OverviewRow>* rows) {
  try {
    const Run run = replay_file(file, call);
    print_report(run, call);
    rows->push_back(overview_row(run));
    return call.expect && !run.is_equal() ? kDifferent : kAsExpected;
  } catch (const Failure& failure) {
    complain(file, failure);
    return kFailed;
  }
}

ExitCode run_script(const ReplayCall& call) {
  try {
    if (call.files.size() > 1) throw Failure("--script takes one file");
    write_script(call.files.front(), call);
    return kAsExpected;
  } catch (const Failure& failure) {
    complain(call.files.front(), failure);
    return kFailed;
  }
}

}  // namespace

void complain(const std::string& file, const Failure& failure) {
  std::fflush(stdout);
  std::fprintf(stderr, "cachalot: %s: %s\n", file == "-" ? "standard input" : file.c_str(),
               failure.what());
}

void add_replay_options(CLI::App* command, ReplayCall* call) {
  command->add_option("--config", call->config, "Option string [the recorded one]");
  command->add_option("--torch", call->torch, "Release whose decisions are made [the recorded one]")
      ->check(CLI::IsMember({"2.11", "2.15"}));
  command->add_option_function<std::string>(
      "--policy",
      [call](const std::string& text) {
        call->policy = option_value("--policy", [&] { return read_policy(text); });
      },
      "Whose decisions: pytorch, or serving and its options, like serving,thrift,page=8MiB "
      "[pytorch]");
  add_capacity_option(command, "--capacity", &call->capacity,
                      "Memory of a device, like 80GiB, at most 4TiB [the recorded one]");
  command->add_option("--fraction", call->fraction, "Fraction of it that may be used [all]")
      ->check(CLI::PositiveNumber);
}

void add_replay_command(CLI::App* app, ReplayCall* call) {
  CLI::App* const replay = app->add_subcommand(
      "replay", "Replay recorded runs and show PyTorch's figures beside this allocator's");
  replay->add_option("FILE", call->files, "Traces: plain, .gz or .xz; - is standard input")
      ->required();
  add_replay_options(replay, call);
  replay->add_flag(
      "--expect", call->expect,
      "Replay exactly and compare every event and statistic; exit code 1 if one differs");
  replay->add_flag("--script", call->script, "Write the run as a script for the oracle instead");
  replay->add_flag("--all-stats", call->all_stats, "Show every statistic, not the main ones only");
  replay->add_flag("--brief", call->brief, "Leave the memory summary out");
}

ExitCode run_replay_command(const ReplayCall& call) {
  if (call.script) return run_script(call);
  ExitCode code = kAsExpected;
  std::vector<OverviewRow> rows;
  for (const std::string& file : call.files) {
    if (&file != &call.files.front()) std::printf("\n");
    code = std::max(code, run_one(file, call, &rows));
  }
  if (rows.size() > 1) {
    std::printf("\n");
    print_overview(rows, call);
  }
  return code;
}

}  // namespace cachalot::cli
