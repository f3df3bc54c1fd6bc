// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot inspect FILE...`
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "run.h"

namespace cachalot::cli {

struct InspectCall {
  ReplayCall replay;                 // its files
  std::vector<std::string> options;  // to be forecast for a recording of a program
  size_t places = 0;
  bool json = false;
};

// Its options are written to *call, which has to live until the command line has been parsed.
void add_inspect_command(CLI::App* app, InspectCall* call);

int run_inspect_command(const InspectCall& call);

}  // namespace cachalot::cli
