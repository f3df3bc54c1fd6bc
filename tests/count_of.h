// SPDX-License-Identifier: MIT OR Apache-2.0
// How often a text has a part.
#pragma once

#include <cstddef>
#include <string>

namespace cachalot_test {

inline size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    count++;
  return count;
}

}  // namespace cachalot_test
