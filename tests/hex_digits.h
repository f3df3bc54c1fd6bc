// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes as text: two hexadecimal digits each.
#pragma once

#include <string>
#include <string_view>

namespace cachalot_test {

inline std::string to_hex_digits(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// Throws std::invalid_argument for what are no digits.
inline std::string of_hex_digits(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

}  // namespace cachalot_test
