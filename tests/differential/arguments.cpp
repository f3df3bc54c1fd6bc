// SPDX-License-Identifier: MIT OR Apache-2.0
#include "arguments.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "input_error.h"

namespace cachalot::differential {
namespace {

constexpr std::string_view kBlanks = " \t";

[[noreturn]] void throw_no_number(std::string_view text) {
  throw InputError("expected a number, got '" + std::string(text) + "'");
}

template <typename Number>
Number parse(std::string_view text, int base = 10) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number, base);
  if (result.ec != std::errc{} || result.ptr != end) throw_no_number(text);
  return number;
}

}  // namespace

uint64_t parse_hex(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  return parse<uint64_t>(text, 16);
}

Arguments::Arguments(std::string_view line) : left_(line) { word(); }

void Arguments::skip_blanks() {
  left_.remove_prefix(std::min(left_.find_first_not_of(kBlanks), left_.size()));
}

bool Arguments::more() {
  skip_blanks();
  return !left_.empty();
}

std::string_view Arguments::word() {
  if (!more()) throw InputError("an argument is missing");
  const std::string_view word = left_.substr(0, left_.find_first_of(kBlanks));
  left_.remove_prefix(word.size());
  return word;
}

uint64_t Arguments::size() { return parse<uint64_t>(word()); }

int64_t Arguments::number() { return parse<int64_t>(word()); }

int32_t Arguments::small_number() { return parse<int32_t>(word()); }

uint64_t Arguments::hex() { return parse_hex(word()); }

double Arguments::fraction() {
  const std::string text(word());
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) throw_no_number(text);
  return value;
}

cachalot_pool_id Arguments::pool() {
  const std::string_view text = word();
  if (text.front() == 'g') return {parse<uint64_t>(text.substr(1)), 0};
  return {0, parse<uint64_t>(text)};
}

std::string Arguments::rest() {
  skip_blanks();
  std::string text(left_);
  left_ = {};
  return text;
}

void Arguments::end() {
  if (more()) throw InputError("an argument too many: '" + std::string(left_) + "'");
}

}  // namespace cachalot::differential
