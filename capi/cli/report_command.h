// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot report FILE... -o PAGE`
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "run.h"

namespace cachalot::cli {

struct ReportCall {
  ReplayCall replay;
  std::optional<std::string> against_config;
  std::string output;
};

// Its options are written to *call, which has to live until the command line has been parsed.
void add_report_command(CLI::App* app, ReportCall* call);

int run_report_command(const ReportCall& call);

}  // namespace cachalot::cli
