// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot run -- PROGRAM`.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cachalot::cli {

struct RunCall {
  std::vector<std::string> program;  // and its arguments, where they stood behind "--"
  CLI::App* command = nullptr;       // knows them where they did not
  std::string free = "wait";
  std::string async = "driver";
  std::string virtual_memory = "driver";
  std::optional<std::string> config;
  std::string policy;
  std::string tenant;
  std::string metrics;
  std::string env_folder;  // "": a program is to be started
  std::optional<uint64_t> leash;
  uint64_t limit = 0;      // bytes
  uint64_t trim_idle = 0;  // seconds
  bool clear = false;
  bool whole = false;
  bool audit = false;
  bool quiet = false;
};

void add_run_command(CLI::App* app, RunCall* call);
// Gives the program's exit code.
int run_run_command(const RunCall& call);

}  // namespace cachalot::cli
