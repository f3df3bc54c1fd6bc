// SPDX-License-Identifier: MIT OR Apache-2.0
// Texts of callers, which may be any bytes, on their way into formats that are UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace cachalot {

// The text, with U+FFFD for each byte that belongs to no character (as Unicode 3.9 defines it:
// neither overlong forms nor surrogates).
std::string valid_utf8(std::string_view text);

// The inside of a JSON string: valid UTF-8, with quotes, backslashes and control characters
// escaped.
std::string json_escaped(std::string_view text);

}  // namespace cachalot
