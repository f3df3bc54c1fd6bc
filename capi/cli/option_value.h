// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of the command line whose values are more than numbers and texts.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "failure.h"
#include "numbers.h"

namespace cachalot::cli {

// What a conversion says of a wrong value is shown as CLI11 shows its own.
template <class Read>
auto option_value(const std::string& option, Read read) {
  try {
    return read();
  } catch (const Failure& failure) {
    throw CLI::ValidationError(option, failure.what());
  }
}

// Bytes, like 80GiB.
inline void add_capacity_option(CLI::App* command, const std::string& option, uint64_t* bytes,
                                const std::string& text) {
  command->add_option_function<std::string>(
      option,
      [option, bytes](const std::string& value) {
        *bytes = option_value(option, [&] { return parse_capacity(value); });
      },
      text);
}

}  // namespace cachalot::cli
