// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/utf8.h"

#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/text.h"

namespace cachalot {
namespace {

struct CharacterRange {
  uint8_t first_lead, last_lead;      // of the first byte
  uint8_t first_second, last_second;  // of the second one; all others are 80 to BF
  size_t length;
};

// Table 3-7 of the Unicode standard.
constexpr CharacterRange kCharacters[] = {
    {0x00, 0x7F, 0x00, 0x00, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

// Bytes of the character that the text begins with; 0: it begins with none.
size_t character_length(std::string_view text) {
  CACHALOT_ASSERT(1, !text.empty());
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (const CharacterRange& range : kCharacters) {
    if (byte(0) < range.first_lead || byte(0) > range.last_lead) continue;
    if (text.size() < range.length) return 0;
    for (size_t i = 1; i < range.length; i++) {
      const bool is_second = i == 1;
      if (byte(i) < (is_second ? range.first_second : 0x80)) return 0;
      if (byte(i) > (is_second ? range.last_second : 0xBF)) return 0;
    }
    return range.length;
  }
  return 0;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = character_length(text);
    valid += length == 0 ? "\xEF\xBF\xBD" : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return valid;
}

std::string json_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      escaped += format("\\u%04x", static_cast<unsigned>(byte));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace cachalot
