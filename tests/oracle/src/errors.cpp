// SPDX-License-Identifier: MIT OR Apache-2.0
#include "errors.h"

#include <c10/util/Exception.h>

#include <stdexcept>

#include "output.h"
#include "verbosity.h"

namespace oracle {
namespace {

template <class Type>
bool is(const std::exception& error) {
  return dynamic_cast<const Type*>(&error) != nullptr;
}

// Derived classes are asked for before their bases.
const char* kind(const std::exception& error) {
  if (is<c10::OutOfMemoryError>(error)) return "oom";
  if (is<c10::ValueError>(error)) return "value";
  if (is<c10::IndexError>(error)) return "index";
  if (is<c10::TypeError>(error)) return "type";
  if (is<c10::NotImplementedError>(error)) return "not_implemented";
  if (is<c10::AcceleratorError>(error)) return "accelerator";
  if (is<c10::Error>(error)) return "error";
  if (is<std::invalid_argument>(error)) return "invalid_argument";
  if (is<std::out_of_range>(error)) return "out_of_range";
  return "other";
}

std::string escape_line_breaks(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\\n");
  }
  return text;
}

std::string text(const std::exception& error) {
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  const std::string what = ours ? ours->what_without_backtrace() : error.what();
  return verbosity.whole_text ? escape_line_breaks(what) : first_line(what);
}

}  // namespace

std::string describe(const std::exception& error) {
  return std::string(kind(error)) + " " + text(error);
}

}  // namespace oracle
