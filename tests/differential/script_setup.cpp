// SPDX-License-Identifier: MIT OR Apache-2.0
#include "script_setup.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "arguments.h"

namespace cachalot::differential {
namespace {

constexpr int32_t kMostDevices = 64;

// NAME and VALUE of "env NAME=VALUE".
std::pair<std::string, std::string> parse_variable(std::string_view line) {
  Arguments arguments(line);
  const std::string text = arguments.rest();
  const size_t equals = text.find('=');
  if (equals == 0 || equals == text.npos) throw InputError("expected NAME=VALUE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// The option string stands behind exactly one blank; blanks of its own are part of it.
std::string parse_config(std::string_view line) {
  constexpr size_t kStart = std::string_view("config ").size();
  return std::string(line.substr(std::min(kStart, line.size())));
}

void read_device(std::string_view line, ScriptSetup* setup) {
  Arguments arguments(line);
  setup->memory = arguments.size();
  arguments.size();
  setup->devices = arguments.more() ? arguments.small_number() : 1;
  arguments.end();
  if (setup->devices < 1 || setup->devices > kMostDevices)
    throw InputError("a number of devices out of range");
}

}  // namespace

// As the oracle does, which reads these lines wherever they stand.
ScriptSetup read_setup(std::span<const Operation> operations) {
  ScriptSetup setup;
  for (const Operation& operation : operations) {
    at_line(operation.line_number, [&] {
      if (operation.word == "config") setup.library.config = parse_config(operation.line);
      if (operation.word == "env")
        setup.library.environment.push_back(parse_variable(operation.line));
      if (operation.word == "device") read_device(operation.line, &setup);
    });
  }
  return setup;
}

}  // namespace cachalot::differential
