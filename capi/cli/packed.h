// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers and bytes as a page carries them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cachalot::cli {

// Numbers of 7 bits a byte, the lowest first; the high bit says that more follow.
class NumberColumn {
 public:
  void add(uint64_t number);
  // A difference that may be below 0: 0, -1, 1, -2, ... are 0, 1, 2, 3, ...
  void add_signed(int64_t number);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Throws Failure.
std::string gzip(std::string_view bytes);

std::string base64(std::string_view bytes);

}  // namespace cachalot::cli
