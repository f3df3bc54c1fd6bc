// SPDX-License-Identifier: MIT OR Apache-2.0
#include "report_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "failure.h"
#include "options_check.h"
#include "page_file.h"
#include "replay_command.h"
#include "report_page.h"

namespace cachalot::cli {
namespace {

constexpr size_t kMostRuns = 2;  // side by side

std::string output_of(const ReportCall& call) {
  if (!call.output.empty()) return call.output;
  const std::string& file = call.replay.files.front();
  return (file == "-" ? "report" : recording_name(file)) + ".html";
}

// A pipe can be read only once, so what is compared with itself is, too.
void add_runs(const std::string& file, const ReportCall& call, std::vector<ReportRun>* runs) {
  try {
    double seconds = 0;
    const TraceHandle trace = read_trace(file, &seconds);
    runs->push_back(report_run(trace.get(), file, call.replay));
    if (!call.against_config) return;
    ReplayCall against = call.replay;
    against.config = *call.against_config;
    runs->push_back(report_run(trace.get(), file, against));
  } catch (const Failure& failure) {
    throw Failure(file + ": " + failure.what());
  }
}

std::vector<ReportRun> runs_of(const ReportCall& call) {
  std::vector<ReportRun> runs;
  for (const std::string& file : call.replay.files) add_runs(file, call, &runs);
  return runs;
}

}  // namespace

void add_report_command(CLI::App* app, ReportCall* call) {
  CLI::App* const report = app->add_subcommand(
      "report", "Replay recorded runs and write one page that shows what their memory did");
  report
      ->add_option("FILE", call->replay.files,
                   "Recordings: plain, .gz or .xz; - is standard input; two are compared")
      ->required();
  report->add_option("-o,--output", call->output, "The page [NAME.html, of the first file]");
  report->add_option("--against-config", call->against_config,
                     "Compare the file with itself under this option string");
  add_replay_options(report, &call->replay);
}

int run_report_command(const ReportCall& call) {
  try {
    if (call.replay.files.size() + (call.against_config ? 1 : 0) > kMostRuns)
      throw Failure("a page compares two runs: one file with --against-config, or two files");
    write_page(output_of(call), report_page(runs_of(call)), stdout);
    return kAsExpected;
  } catch (const Failure& failure) {
    std::fflush(stdout);
    tell_user(failure.what());
    return kFailed;
  }
}

}  // namespace cachalot::cli
