// SPDX-License-Identifier: MIT OR Apache-2.0
// What is thrown for input that is no expected file.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace cachalot::differential {

class InputError : public std::runtime_error {
 public:
  // line: counted from 1; 0 where the fault is that of the file as a whole, or is not known yet.
  explicit InputError(const std::string& message, size_t line = 0)
      : std::runtime_error(message), line_(line) {}

  size_t line() const { return line_; }

 private:
  size_t line_;
};

}  // namespace cachalot::differential
