// SPDX-License-Identifier: MIT OR Apache-2.0
#include "numbers.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "failure.h"

namespace cachalot::cli {
namespace {

std::string with_decimals(const char* pattern, double number) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, number);
  return text;
}

std::optional<uint64_t> bytes_of_unit(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  if (unit == "KiB") return uint64_t{1} << 10;
  if (unit == "MiB") return uint64_t{1} << 20;
  if (unit == "GiB") return uint64_t{1} << 30;
  if (unit == "TiB") return uint64_t{1} << 40;
  return {};
}

}  // namespace

std::string grouped(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); i++) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string grouped(int64_t number) {
  if (number >= 0) return grouped(static_cast<uint64_t>(number));
  return std::string("-").append(grouped(uint64_t{0} - static_cast<uint64_t>(number)));
}

std::string hexadecimal(uint64_t number) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(number));
  return text.data();
}

std::string mebibytes(uint64_t bytes) {
  const std::string tenths = std::to_string((bytes % kMiB * 10) / kMiB);
  return grouped(bytes / kMiB) + "." + tenths + " MiB";
}

std::string gibibytes(uint64_t bytes) {
  return with_decimals("%.1f GiB", static_cast<double>(bytes) / static_cast<double>(kMiB << 10));
}

std::string percent(double share) { return with_decimals("%.1f %%", 100 * share); }

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string milliseconds(double number) {
  return with_decimals(number < 10 ? "%.2f ms" : "%.0f ms", number);
}

std::string ratio(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return with_decimals("%.3f", static_cast<double>(part) / static_cast<double>(whole));
}

std::string rounded(double number) {
  if (number >= 1e6) return with_decimals("%.1f million", number / 1e6);
  return grouped(static_cast<uint64_t>(number));
}

uint64_t parse_capacity(const std::string& text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  const auto unit = bytes_of_unit({stopped, static_cast<size_t>(end - stopped)});
  if (error != std::errc() || number == 0 || !unit || number > UINT64_MAX / *unit)
    throw Failure("'" + text +
                  "' is no capacity: a number above 0 with B, KiB, MiB, GiB or TiB, like 80GiB");
  return number * *unit;
}

}  // namespace cachalot::cli
