// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot replay FILE...`
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "failure.h"
#include "run.h"

namespace cachalot::cli {

// The options that say how a recording is replayed. They are written to *call, which has to live until the command line
// has been parsed.
void add_replay_options(CLI::App* command, ReplayCall* call);
// Likewise.
void add_replay_command(CLI::App* app, ReplayCall* call);

ExitCode run_replay_command(const ReplayCall& call);

// On standard error, in a line.
void complain(const std::string& file, const Failure& failure);

}  // namespace cachalot::cli
