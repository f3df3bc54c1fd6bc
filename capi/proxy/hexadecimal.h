// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers as the remarks of a recording have them (docs/trace-format.md).
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>

namespace cachalot::proxy {

inline void append_hex(std::string* out, uint64_t number) {
  std::array<char, 16> text;
  out->append(text.data(), std::to_chars(text.data(), text.data() + text.size(), number, 16).ptr);
}

}  // namespace cachalot::proxy
