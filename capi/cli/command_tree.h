// SPDX-License-Identifier: MIT OR Apache-2.0
// The commands and options of the program as CLI11 knows them, for texts that name all of them.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace cachalot::cli {

struct OptionText {
  std::vector<std::string> names;    // with their dashes; empty: an argument that has none
  std::string value;                 // what stands for its value, like FILE; "": it takes none
  std::vector<std::string> choices;  // the only values that it takes; empty: others
  std::string text;
  bool is_number = false;
};

struct CommandText {
  std::string name;
  std::string text;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
  bool starts_program = false;  // what stands behind "--" is another program's
};

// Without what is hidden.
CommandText read_commands(const CLI::App& app);

}  // namespace cachalot::cli
