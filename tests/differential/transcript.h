// SPDX-License-Identifier: MIT OR Apache-2.0
// What the library did in one operation, line by line as the oracle would print it.
#pragma once

#include <charconv>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot::differential {

// A call that failed.
struct Failure {
  cachalot_status status;
  // It was the making of the allocator.
  bool at_init;
};

struct Line {
  // Of a failure: its message alone.
  std::string text;
  std::optional<Failure> failure;
};

// The library's thread in the background adds lines beside the script.
class Transcript {
 public:
  void add(std::string text) { add({std::move(text), std::nullopt}); }
  void add_failure(Failure failure, std::string message) { add({std::move(message), failure}); }

  std::vector<Line> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    lines_.clear();
  }

 private:
  void add(Line line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }

  mutable std::mutex mutex_;
  std::vector<Line> lines_;
};

inline std::string decimal(uint64_t value) { return std::to_string(value); }
inline std::string decimal(int64_t value) { return std::to_string(value); }
inline std::string decimal(int32_t value) { return std::to_string(value); }

inline std::string hex(uint64_t value) {
  char digits[16];
  return {digits, std::to_chars(digits, digits + sizeof digits, value, 16).ptr};
}

}  // namespace cachalot::differential
