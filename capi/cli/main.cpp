// SPDX-License-Identifier: MIT OR Apache-2.0
// The program `cachalot`: what the library does, for the command line. It sees the public header
// only.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cachalot/cachalot.h"
#include "completion_command.h"
#include "convert_command.h"
#include "failure.h"
#include "inspect_command.h"
#include "launch.h"
#include "measure/measure_command.h"
#include "record_command.h"
#include "replay_command.h"
#include "report_command.h"
#include "run_command.h"
#include "tune/tune_command.h"

namespace cachalot::cli {
namespace {

// The exit codes below are the program's that it starts.
template <class Launcher>
int run_launcher(Launcher launcher) {
  try {
    return launcher();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "cachalot: %s\n", failure.what());
    return kLauncherFailed;
  }
}

// Cuts off what stands behind the first "--" of a command that starts a program: that is the program's.
std::vector<std::string> take_program(int* argc, char** argv) {
  const std::string command = *argc < 2 ? "" : argv[1];
  if (command != "record" && command != "run") return {};
  char** const end = argv + *argc;
  char** const dashes =
      std::find_if(argv, end, [](const char* word) { return std::string(word) == "--"; });
  if (dashes == end) return {};
  *argc = static_cast<int>(dashes - argv);
  return {dashes + 1, end};
}

int run(int argc, char** argv) {
  CLI::App app("PyTorch's CUDA caching allocator for every program that is not PyTorch",
               "cachalot");
  app.set_version_flag("--version", std::string("cachalot ") + cachalot_version());
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 as expected, 1 a difference was found, 2 the input or the call is wrong.");
  RecordCall record;
  RunCall run;
  record.program = run.program = take_program(&argc, argv);
  add_record_command(&app, &record);
  add_run_command(&app, &run);
  InspectCall inspect;
  add_inspect_command(&app, &inspect);
  ReplayCall replay;
  add_replay_command(&app, &replay);
  TuneCall tune;
  add_tune_command(&app, &tune);
  MeasureCall measure;
  add_measure_command(&app, &measure);
  ConvertCall convert;
  add_convert_command(&app, &convert);
  ReportCall report;
  add_report_command(&app, &report);
  std::string shell;
  add_completion_commands(&app, &shell);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kAsExpected : kFailed;
  }
  if (app.got_subcommand("record")) return run_launcher([&] { return run_record_command(record); });
  if (app.got_subcommand("run")) return run_launcher([&] { return run_run_command(run); });
  if (app.got_subcommand("inspect")) return run_inspect_command(inspect);
  if (app.got_subcommand("tune")) return run_tune_command(tune);
  if (app.got_subcommand("measure")) return run_measure_command(measure);
  if (app.got_subcommand("convert")) return run_convert_command(convert);
  if (app.got_subcommand("report")) return run_report_command(report);
  if (app.got_subcommand("replay")) return run_replay_command(replay);
  return run_completion_command(app, shell);
}

}  // namespace
}  // namespace cachalot::cli

int main(int argc, char** argv) {
  try {
    return cachalot::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cachalot: %s\n", error.what());
    return cachalot::cli::kFailed;
  }
}
