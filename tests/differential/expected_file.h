// SPDX-License-Identifier: MIT OR Apache-2.0
// What the reference did: a script's operations, each with the lines that were printed under it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cachalot::differential {

// One line of the script. The texts live as long as the file they are from.
struct Operation {
  std::string_view line;
  // The first word of the line, which names the operation.
  std::string_view word;
  // What was printed under it, without the blank that each line begins with.
  std::span<const std::string_view> expected;
  // Of the operation in the file, counted from 1; the expected lines follow it.
  size_t line_number = 0;
};

class ExpectedFile {
 public:
  // The word of the block that each complete file ends with; no operation of a script.
  static constexpr std::string_view kEnd = "end";

  // Throws InputError for a text that the oracle cannot have printed as a whole.
  explicit ExpectedFile(std::string text);
  ExpectedFile(const ExpectedFile&) = delete;
  ExpectedFile& operator=(const ExpectedFile&) = delete;

  const std::vector<Operation>& operations() const { return operations_; }

  // The file's text again, made of the operations.
  std::string print() const;

 private:
  void parse();
  void add_operation(std::string_view line, size_t line_number);
  void check_end() const;

  std::string text_;
  std::vector<std::string_view> expected_;
  std::vector<Operation> operations_;
};

}  // namespace cachalot::differential
