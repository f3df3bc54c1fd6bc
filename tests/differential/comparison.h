// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether the library's lines are those of the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "transcript.h"

namespace cachalot::differential {

// How texts of errors are compared in one operation.
struct ErrorRules {
  // The expected file has all lines of an error text, with \n between them; else the first only.
  bool whole_text = false;
  // The reference's text cannot be had through the C interface.
  bool kind_only = false;
};

// The comparison of one file. Contexts are numbers of script lines: the reference counts the lines
// of the script, also those that the expected file does not show; the library's contexts count the
// file's operations. Since what is left out stands at the top, the two differ by a constant, which
// the first pair that is seen tells.
class Comparison {
 public:
  // The first line that differs, is missing or is one too many.
  std::optional<size_t> first_difference(std::span<const std::string_view> expected,
                                         std::span<const Line> actual, ErrorRules rules);

  // A line of the library as the oracle would have printed it, but for the kind of an error.
  std::string show(const Line& line, ErrorRules rules) const;

 private:
  bool equal(std::string_view expected, const Line& actual, ErrorRules rules);
  bool equal_but_context(std::string_view expected, std::string_view actual);

  std::optional<uint64_t> lines_left_out_;
};

}  // namespace cachalot::differential
