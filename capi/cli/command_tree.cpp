// SPDX-License-Identifier: MIT OR Apache-2.0
#include "command_tree.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace cachalot::cli {
namespace {

// Of {a,b}, as CLI11 describes the set of what an option takes.
std::vector<std::string> read_choices(const std::string& type) {
  const size_t begin = type.find('{');
  const size_t end = type.rfind('}');
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

OptionText read_option(const CLI::Option& option) {
  OptionText read;
  for (const std::string& name : option.get_snames()) read.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) read.names.push_back("--" + name);
  read.text = option.get_description();
  const std::string type = option.get_type_name();
  read.choices = read_choices(type);
  read.is_number = type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
  if (read.names.empty()) {
    read.value = option.get_name(true) + (option.get_items_expected_max() > 1 ? "..." : "");
  } else if (option.get_items_expected_max() > 0) {
    read.value = read.is_number ? "NUMBER" : "VALUE";
  }
  return read;
}

}  // namespace

CommandText read_commands(const CLI::App& app) {
  CommandText read;
  read.name = app.get_name();
  read.text = app.get_description();
  read.footer = app.get_footer();
  read.starts_program = app.get_prefix_command();
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) read.options.push_back(read_option(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) read.commands.push_back(read_commands(*command));
  return read;
}

}  // namespace cachalot::cli
