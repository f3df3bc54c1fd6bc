// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of the simulated driver as lines of text, kept until the caller takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "device/device.h"

namespace cachalot {

// The words that ask for lines; to be added up.
inline constexpr uint32_t kLogCalls = 0x1;
inline constexpr uint32_t kLogHandles = 0x2;
inline constexpr uint32_t kLogQueries = 0x4;
inline constexpr uint32_t kLogCaptureModes = 0x8;
inline constexpr uint32_t kLogWaits = 0x10;
inline constexpr uint32_t kLogEverything = 0x1F;

class SimLog {
 public:
  struct Hex {
    uint64_t value;
  };
  // Nothing for a call that worked, else " oom" or " error N".
  struct Outcome {
    DriverCode code;
  };

  void set_words(uint32_t words) { words_ = words; }

  // Adds a line if its word is wanted. Integers are written in decimal.
  template <class... Parts>
  void add(uint32_t word, const Parts&... parts) {
    if ((words_ & word) == 0) return;
    (append(parts), ...);
    text_ += '\n';
  }

  // Moves whole lines, oldest first, and a NUL into `buffer`, as many as fit. Returns the length of
  // all that was waiting.
  size_t take(char* buffer, size_t capacity);

 private:
  void append(std::string_view part) { text_ += part; }
  void append(int part);
  void append(uint64_t part);
  void append(Hex part);
  void append(Outcome part);

  uint32_t words_ = 0;
  std::string text_;
  size_t taken_ = 0;  // bytes at the front of text_ that are gone
};

}  // namespace cachalot
