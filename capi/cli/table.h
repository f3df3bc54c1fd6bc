// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows of text in columns as wide as they need to be.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace cachalot::cli {

class Table {
 public:
  // alignment: 'l' or 'r' for each column.
  explicit Table(std::string alignment) : alignment_(std::move(alignment)) {}

  // Cells that are left out are empty. Control characters, which a recording's texts may have, become "?".
  void add(std::vector<std::string> row);
  // A line under the rows so far.
  void rule() { rows_.emplace_back(); }

  void print(std::FILE* out) const;

 private:
  std::vector<size_t> widths() const;

  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;  // an empty one: a rule
};

}  // namespace cachalot::cli
