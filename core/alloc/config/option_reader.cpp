// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/config/option_reader.h"

#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <type_traits>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace cachalot {

namespace {

// Not isspace: the meaning of an option string must not depend on the program's locale.
bool is_white_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_separator(char c) { return c == ',' || c == ':' || c == '[' || c == ']'; }

// A locale is a handle of C, which has to be freed on each way out.
struct FreeLocale {
  void operator()(locale_t locale) const { freelocale(locale); }
};
using UniqueLocale = std::unique_ptr<std::remove_pointer_t<locale_t>, FreeLocale>;

}  // namespace

std::vector<std::string> split_options(std::string_view text) {
  std::vector<std::string> tokens;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) tokens.push_back(std::move(word));
    word.clear();
  };
  for (const char c : text) {
    if (is_separator(c)) {
      end_word();
      tokens.emplace_back(1, c);
    } else if (!is_white_space(c)) {
      word += c;
    }
  }
  end_word();
  CACHALOT_ASSERT(2, std::none_of(tokens.begin(), tokens.end(),
                                  [](const std::string& token) { return token.empty(); }));
  return tokens;
}

double read_number(const std::string& text, size_t* length) {
  // strtod reads a comma for the point in some locales, and from_chars knows no hexadecimal prefix.
  const UniqueLocale locale(newlocale(LC_ALL_MASK, "C", nullptr));
  if (!locale) throw Error(Status::kOutOfHostMemory, "No memory for the C locale");
  char* end = nullptr;
  const double number = strtod_l(text.c_str(), &end, locale.get());
  CACHALOT_ASSERT(1, end <= text.c_str() + text.size());
  *length = static_cast<size_t>(end - text.c_str());
  return number;
}

uint64_t parse_integer(const std::string& token) {
  CACHALOT_ASSERT(1, !token.empty());
  const bool has_sign = token[0] == '-' || token[0] == '+';
  uint64_t number = 0;
  const char* end = token.data() + token.size();
  // An unsigned from_chars takes no sign of its own, so that a second one is an error here too.
  const auto result = std::from_chars(token.data() + has_sign, end, number);
  // The text is that of the C++ function which the reference calls.
  if (result.ec != std::errc()) throw_invalid_argument("stoull");
  return token[0] == '-' ? 0 - number : number;
}

double parse_fraction(const std::string& token) {
  size_t length = 0;
  errno = 0;
  const double number = read_number(token, &length);
  // Likewise.
  if (length == 0 || errno == ERANGE) throw_invalid_argument("stod");
  return number;
}

const std::string& OptionReader::next() const {
  if (at_end())
    throw_invalid_argument(
        format("The option string ends too early, after %zu tokens", tokens_.size()));
  return tokens_[position_];
}

const std::string& OptionReader::take() {
  const std::string& token = next();
  ++position_;
  return token;
}

// A size that is cut is still larger than any device.
uint64_t OptionReader::take_megabytes() { return std::min(take_integer(), UINT64_MAX / MiB) * MiB; }

bool OptionReader::take_flag() {
  const std::string& token = take();
  if (token == "True") return true;
  if (token == "False") return false;
  throw_invalid_argument(
      format("Expected 'True' or 'False' at index %zu in ConfigTokenizer but got '%s'",
             position_ - 1, token.c_str()));
}

void OptionReader::skip_value() {
  if (take() != "[") return;
  // A list without its end runs past the last token, which is the error to give.
  while (take() != "]") {
  }
}

}  // namespace cachalot
