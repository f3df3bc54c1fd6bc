// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot replay FILE...`
#pragma once

#include <CLI/App.hpp>

#include "failure.h"
#include "run.h"

namespace cachalot::cli {

// Its options are written to *call, which has to live until the command line has been parsed.
void add_replay_command(CLI::App* app, ReplayCall* call);

ExitCode run_replay_command(const ReplayCall& call);

}  // namespace cachalot::cli
