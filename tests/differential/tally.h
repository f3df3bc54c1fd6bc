// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts over all files: what was compared and what came of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace cachalot::differential {

struct WordCount {
  uint64_t operations = 0;
  uint64_t lines = 0;
};

struct Tally {
  uint64_t files = 0;
  uint64_t differences = 0;
  uint64_t faulty_files = 0;
  // Operations whose lines, and files whose rest, are not compared on purpose.
  uint64_t exempt_operations = 0;
  uint64_t exempt_files = 0;
  // Files by the defect of the reference whose mending ended their comparison.
  std::map<std::string, uint64_t> mended;
  // What was compared, by the word of the operation.
  std::map<std::string_view, WordCount> words;

  void add_compared(std::string_view word, uint64_t lines) {
    WordCount& count = words[word];
    count.operations++;
    count.lines += lines;
  }

  WordCount total() const {
    WordCount sum;
    for (const auto& [word, count] : words) {
      sum.operations += count.operations;
      sum.lines += count.lines;
    }
    return sum;
  }
};

}  // namespace cachalot::differential
