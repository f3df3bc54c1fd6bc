// SPDX-License-Identifier: MIT OR Apache-2.0
#include "inspect_command.h"

#include <CLI/CLI.hpp>

#include "failure.h"
#include "memory_picture.h"
#include "numbers.h"
#include "options_check.h"
#include "recording_report.h"
#include "replay_command.h"
#include "table.h"

namespace cachalot::cli {
namespace {

void print_header(const std::string& file, const nlohmann::ordered_json& picture) {
  const auto text = [&](const char* key) { return picture[key].get<std::string>(); };
  Table table("ll");
  table.add({"recording", file});
  table.add({"workload", text("workload")});
  table.add({"replayed", "as " +
                             (text("policy") == "serving" ? std::string("the serving policy")
                                                          : "PyTorch " + text("release")) +
                             " on " + std::to_string(picture["devices"].get<int>()) + " x " +
                             gibibytes(picture["capacity"].get<uint64_t>()) + ", options: " +
                             (text("config").empty() ? "defaults" : text("config"))});
  table.print(stdout);
}

void print_json(const std::string& file, const nlohmann::ordered_json& picture) {
  nlohmann::ordered_json object{{"version", 1}, {"file", file}};
  object.update(picture);
  std::printf("%s\n",
              object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

// What the program's calls tell is shown also where they cannot be replayed.
void inspect(const std::string& file, const InspectCall& call) {
  double seconds = 0;
  const TraceHandle trace = read_trace(file, &seconds);
  const bool is_of_program = is_recording_of_program(trace.get());
  if (is_of_program && !call.json)
    print_recording(trace.get(), file, with_defaults(call.options), call.places, stdout);
  const auto picture = memory_picture(trace.get(), call.replay);
  if (call.json) return print_json(file, picture);
  if (!is_of_program) print_header(file, picture);
  print_memory_picture(picture, stdout);
}

}  // namespace

void add_inspect_command(CLI::App* app, InspectCall* call) {
  CLI::App* const inspect = app->add_subcommand(
      "inspect",
      "Show what recordings tell: totals, who holds the memory at the peak, why what is cached "
      "cannot be used; of a program also its calls of the driver, and what cachalot would make of "
      "them");
  inspect->add_option("FILE", call->replay.files, "Recordings: plain, .gz or .xz")->required();
  inspect->add_flag("--json", call->json, "As one JSON object a file (docs/report.md)");
  inspect->add_option("--try", call->options, kTryHelp)->allow_extra_args(false);
  inspect->add_option("--places", call->places,
                      "Show so many of the places in the program that have the most at the peak");
  add_replay_options(inspect, &call->replay);
}

int run_inspect_command(const InspectCall& call) {
  int code = kAsExpected;
  for (const std::string& file : call.replay.files) {
    if (&file != &call.replay.files.front() && !call.json) std::printf("\n");
    try {
      inspect(file, call);
    } catch (const Failure& failure) {
      std::fflush(stdout);
      tell_user(file + ": " + failure.what());
      code = kFailed;
    }
  }
  return code;
}

}  // namespace cachalot::cli
