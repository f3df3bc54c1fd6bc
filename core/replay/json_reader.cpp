// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/json_reader.h"

#include <charconv>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

namespace cachalot {
namespace {

constexpr int kDeepest = 64;  // Brackets inside brackets; keeps hostile input off the stack.

void append_utf8(std::string* text, uint32_t code) {
  CACHALOT_ASSERT(1, code < 0x110000);
  const auto add = [text](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xe0 | code >> 12);
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
    }
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

constexpr uint32_t kLowSurrogates = 0xdc00;

bool is_surrogate(uint32_t unit) { return unit >= 0xd800 && unit < 0xe000; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_number_part(char c) {
  return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Moves *at behind the digits there; false if there is none.
bool pass_digits(std::string_view text, size_t* at) {
  const size_t begin = *at;
  while (*at < text.size() && is_digit(text[*at])) ++*at;
  return *at > begin;
}

// By JSON's grammar: C++ libraries of some years read no such number (libc++ before version 20).
bool is_number(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const size_t whole = at;
  if (!pass_digits(text, &at) || (text[whole] == '0' && at > whole + 1)) return false;
  if (at < text.size() && text[at] == '.' && !pass_digits(text, &++at)) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    at++;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) at++;
    if (!pass_digits(text, &at)) return false;
  }
  return at == text.size();
}

}  // namespace

char JsonReader::next() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
    at_++;
  return at_ < text_.size() ? text_[at_] : '\0';
}

std::string JsonReader::string() {
  expect('"');
  std::string text;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (static_cast<unsigned char>(text_[at_]) < ' ') fail("a control character in a text");
    if (text_[at_] == '\\')
      append_escape(&text);
    else
      text.push_back(text_[at_++]);
  }
  expect('"');
  return text;
}

int64_t JsonReader::integer() {
  const char first = next();
  int64_t value = 0;
  if ((first != '-' && !is_digit(first)) || !take_integer(&value)) fail("not a whole number");
  return value;
}

bool JsonReader::take_integer(int64_t* value) {
  const char first = next();
  if (first != '-' && !is_digit(first)) {
    skip();
    return false;
  }
  const std::string_view digits = number();
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, *value);
  return error == std::errc() && stopped == end;
}

void JsonReader::skip() {
  const char first = next();
  if (first == '{')
    object([this](const std::string&) { skip(); });
  else if (first == '[')
    array();
  else if (first == '"')
    string();
  else if (first == '-' || is_digit(first))
    number();
  else
    literal();
}

void JsonReader::end() {
  if (next() != '\0' || at_ < text_.size()) fail("text after the end");
}

void JsonReader::fail(const char* what) const {
  throw Error(Status::kIo, format("line 1: not JSON: %s at column %zu", what, at_ + 1));
}

bool JsonReader::take(char wanted) {
  if (next() != wanted) return false;
  at_++;
  return true;
}

void JsonReader::expect(char wanted) {
  const char what[] = {'n', 'o', ' ', '\'', wanted, '\'', '\0'};
  if (!take(wanted)) fail(what);
}

void JsonReader::enter(char bracket) {
  expect(bracket);
  if (++depth_ > kDeepest) fail("too many brackets");
}

std::string_view JsonReader::number() {
  CACHALOT_ASSERT(1, at_ < text_.size() && is_number_part(text_[at_]));
  const size_t begin = at_;
  while (at_ < text_.size() && is_number_part(text_[at_])) at_++;
  const std::string_view found = text_.substr(begin, at_ - begin);
  if (!is_number(found)) fail("a bad number");
  return found;
}

void JsonReader::literal() {
  // NaN and Infinity are what Python writes for such numbers.
  for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity"}) {
    if (text_.substr(at_, word.size()) != word) continue;
    at_ += word.size();
    return;
  }
  fail("no value");
}

void JsonReader::array() {
  enter('[');
  if (take(']')) return leave();
  do skip();
  while (take(','));
  expect(']');
  leave();
}

// Of the four digits behind \u.
uint32_t JsonReader::escaped_unit() {
  CACHALOT_ASSERT(1, at_ >= 2 && text_.substr(at_ - 2, 2) == "\\u");
  const std::string_view digits = text_.substr(at_, 4);
  uint32_t unit = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, unit, 16);
  if (digits.size() < 4 || error != std::errc() || stopped != end) fail("a bad escape");
  at_ += 4;
  return unit;
}

// The character whose first half was read.
uint32_t JsonReader::surrogate_pair(uint32_t high) {
  if (text_.substr(at_, 2) != "\\u") fail("half a character");
  at_ += 2;
  const uint32_t low = escaped_unit();
  if (high >= kLowSurrogates || low < kLowSurrogates || !is_surrogate(low))
    fail("half a character");
  return 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
}

void JsonReader::append_escape(std::string* text) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  CACHALOT_ASSERT(1, text_[at_] == '\\');
  const char letter = ++at_ < text_.size() ? text_[at_++] : '\0';
  if (const size_t known = kEscapes.find(letter); known != std::string_view::npos)
    return text->push_back(kMeanings[known]);
  if (letter != 'u') fail("a bad escape");
  const uint32_t unit = escaped_unit();
  append_utf8(text, is_surrogate(unit) ? surrogate_pair(unit) : unit);
}

void append_json_string(std::string* out, std::string_view text) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') out->push_back('\\');
    if (static_cast<unsigned char>(c) < ' ')
      *out += format("\\u%04x", static_cast<unsigned>(c));
    else
      out->push_back(c);
  }
  out->push_back('"');
}

}  // namespace cachalot
