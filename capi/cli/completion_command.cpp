// SPDX-License-Identifier: MIT OR Apache-2.0
#include "completion_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "completion.h"
#include "manual.h"

namespace cachalot::cli {

void add_completion_commands(CLI::App* app, std::string* shell) {
  CLI::App* const completion =
      app->add_subcommand("completion",
                          "Write the script by which a shell completes the command line: eval "
                          "\"$(cachalot completion bash)\"");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->add_subcommand("manual", "Write the man page")->group("");
}

ExitCode run_completion_command(const CLI::App& app, const std::string& shell) {
  const CommandText program = read_commands(app);
  const std::string text = shell == "bash"   ? bash_completion(program)
                           : shell == "zsh"  ? zsh_completion(program)
                           : shell == "fish" ? fish_completion(program)
                                             : man_page(program);
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? kFailed : kAsExpected;
}

}  // namespace cachalot::cli
