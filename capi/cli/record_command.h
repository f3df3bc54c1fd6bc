// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot record -- PROGRAM`.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace cachalot::cli {

struct RecordCall {
  std::vector<std::string> program;  // and its arguments, where they stood behind "--"
  CLI::App* command = nullptr;       // knows them where they did not
  std::string output;                // %p: the process
  std::vector<std::string> options;
  size_t frames = 0;  // of stacks; 0: none
  bool audit = false;
  bool no_waits = false;
  bool quiet = false;
  bool live = false;
  std::string listen;       // HOST:PORT; "": the usual one
  uint64_t keep_bytes = 0;  // of each recording; 0: all, or what is usual with `live`

  bool is_live() const { return live || !listen.empty(); }
};

void add_record_command(CLI::App* app, RecordCall* call);
// Gives the program's exit code.
int run_record_command(const RecordCall& call);

}  // namespace cachalot::cli
