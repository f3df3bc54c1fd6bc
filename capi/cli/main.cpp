// SPDX-License-Identifier: MIT OR Apache-2.0
// The program `cachalot`: what the library does, for the command line. It sees the public header
// only.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cachalot/cachalot.h"
#include "failure.h"
#include "replay_command.h"

namespace cachalot::cli {
namespace {

int run(int argc, char** argv) {
  CLI::App app("PyTorch's CUDA caching allocator for every program that is not PyTorch",
               "cachalot");
  app.set_version_flag("--version", std::string("cachalot ") + cachalot_version());
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 as expected, 1 a difference was found, 2 the input or the call is wrong.");
  ReplayCall replay;
  add_replay_command(&app, &replay);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kAsExpected : kFailed;
  }
  return run_replay_command(replay);
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
