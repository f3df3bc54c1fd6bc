// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot completion SHELL`, and `cachalot manual`, which builds of packages call.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "failure.h"

namespace cachalot::cli {

void add_completion_commands(CLI::App* app, std::string* shell);

// Writes the script for this shell, or the man page for none.
ExitCode run_completion_command(const CLI::App& app, const std::string& shell);

}  // namespace cachalot::cli
