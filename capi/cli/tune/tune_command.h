// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot tune`.
#pragma once

#include <CLI/App.hpp>

#include "../failure.h"
#include "tune.h"

namespace cachalot::cli {

void add_tune_command(CLI::App* app, TuneCall* call);
// Throws Failure.
ExitCode run_tune_command(const TuneCall& call);

}  // namespace cachalot::cli
