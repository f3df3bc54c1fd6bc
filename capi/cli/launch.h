// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs that this one starts and waits for.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cachalot::cli {

// Exit codes of launchers (env, timeout) for what is not the program's own.
inline constexpr int kLauncherFailed = 125;
inline constexpr int kCannotExecute = 126;
inline constexpr int kNotFound = 127;

struct Launched {
  int exit_code = 0;  // the program's; 128 and its number for a signal; kCannotExecute or kNotFound
  int error = 0;      // why the program could not be started; 0: it was
};

// Runs the program to its end with these variables set. Signals that ask this process to end go to the program
// as well, and this process waits for what the program makes of them. If it cannot be started,
// the user is told. started: is called when the program runs.
Launched launch(const std::vector<std::string>& command,
                const std::map<std::string, std::string>& environment,
                const std::function<void()>& started);

// CACHALOT_DISABLE=1: programs are to run as if this tool were not there.
bool is_disabled();
// Runs such a program, and tells the user. Gives its exit code.
int launch_as_it_is(const std::vector<std::string>& command);

// The program of a command that starts one. behind_dashes: what stood behind "--"; else it is what the command has left.
std::vector<std::string> program_of(const std::vector<std::string>& behind_dashes,
                                    const CLI::App& command);

}  // namespace cachalot::cli
