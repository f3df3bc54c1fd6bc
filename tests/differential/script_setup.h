// SPDX-License-Identifier: MIT OR Apache-2.0
// What stands at the top of a script: the device and what the allocator is made with.
#pragma once

#include <cstdint>
#include <span>

#include "expected_file.h"
#include "input_error.h"
#include "script.h"

namespace cachalot::differential {

struct ScriptSetup {
  Setup library;
  uint64_t memory = uint64_t{80} << 30;
  int32_t devices = 1;
};

// Throws InputError with its line for one that cannot be read.
ScriptSetup read_setup(std::span<const Operation> operations);

// Adds the line to an error of one of its words.
template <typename Action>
void at_line(size_t line_number, Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    throw InputError(error.what(), line_number);
  }
}

}  // namespace cachalot::differential
