// SPDX-License-Identifier: MIT OR Apache-2.0
// The operations that a script may consist of, and the calls that each one stands for.
#pragma once

#include <span>
#include <string_view>

#include "arguments.h"
#include "script.h"

namespace cachalot::differential {

// When and how an operation is run.
enum class Stage {
  // It is read before anything runs.
  kSetup,
  // It tells the device or the tool something and does not need the allocator yet.
  kAnyTime,
  // It needs the allocator, which is made if there is none.
  kAllocator,
};

struct OperationKind {
  std::string_view word;
  Stage stage;
  // The first release that knows it: CACHALOT_RELEASE_*.
  int32_t since;
  // nullptr for kSetup.
  void (*run)(Script& script, Arguments& arguments);
};

// All of them.
std::span<const OperationKind> operation_kinds();

// nullptr for a word that names none.
const OperationKind* find_operation_kind(std::string_view word);

}  // namespace cachalot::differential
