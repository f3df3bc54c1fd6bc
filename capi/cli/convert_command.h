// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot convert INPUT -o OUTPUT`: recordings from one format into another.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "run.h"

namespace cachalot::cli {

struct ConvertCall {
  std::string input;
  std::string output;
  std::string to;       // "": as the output's name says
  int64_t process = 0;  // 0: the only one
  ReplayCall replay;
};

void add_convert_command(CLI::App* app, ConvertCall* call);
int run_convert_command(const ConvertCall& call);

}  // namespace cachalot::cli
