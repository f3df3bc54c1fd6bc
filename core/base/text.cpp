// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/text.h"

#include <charconv>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "base/assert.h"
#include "base/units.h"

namespace cachalot {
namespace {

std::optional<uint64_t> unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  if (unit == "KiB") return KiB;
  if (unit == "MiB") return MiB;
  if (unit == "GiB") return GiB;
  if (unit == "TiB") return KiB * GiB;
  return {};
}

}  // namespace

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  CACHALOT_ASSERT(1, length >= 0);  // the pattern is one of ours
  std::string text(static_cast<size_t>(length < 0 ? 0 : length), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string hex_address(uint64_t address) { return format("0x%" PRIx64, address); }

std::string hex_digits(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (const uint8_t byte : bytes) {
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 15];
  }
  return digits;
}

std::string format_size(uint64_t bytes) {
  if (bytes <= KiB) return format("%" PRIu64 " bytes", bytes);
  const auto in = [&](uint64_t unit) {
    return static_cast<double>(bytes) / static_cast<double>(unit);
  };
  if (bytes <= MiB) return format("%.2f KiB", in(KiB));
  if (bytes <= GiB) return format("%.2f MiB", in(MiB));
  return format("%.2f GiB", in(GiB));
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number == 0) return {};
  const auto unit = unit_bytes(text.substr(static_cast<size_t>(end - text.data())));
  if (!unit || number > UINT64_MAX / *unit) return {};
  return number * *unit;
}

std::string path_of_process(const std::string& path, int64_t process) {
  const size_t at = path.find("%p");
  return at == std::string::npos
             ? path
             : path.substr(0, at) + std::to_string(process) + path.substr(at + 2);
}

}  // namespace cachalot
