// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads an option string token by token, with the reference's leniency (options.cpp has the
// grammar).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cachalot {

// The characters , : [ ] are tokens of their own, white space is dropped wherever it stands, and
// everything else accumulates into words.
std::vector<std::string> split_options(std::string_view text);

// strtod with the decimal point of the C locale. Sets `length` to the number of characters that were read, and errno
// as strtod does.
double read_number(const std::string& text, size_t* length);

// pre: a token of split_options().
// Digits at the front of a token; what follows them is ignored, a minus negates modulo 2^64. Throws
// Error(kInvalidArgument).
uint64_t parse_integer(const std::string& token);
// The same for a floating-point number.
double parse_fraction(const std::string& token);

// A position in a list of tokens. Every take_ function throws Error(kInvalidArgument) at the end of
// the list and for a token that is not of the kind asked for. The list must outlive the reader.
class OptionReader {
 public:
  explicit OptionReader(const std::vector<std::string>& tokens, size_t position = 0)
      : tokens_(tokens), position_(position) {}

  bool at_end() const { return position_ >= tokens_.size(); }
  // True if the next token is this one; there must be a next token.
  bool next_is(std::string_view token) const { return next() == token; }

  const std::string& take();
  // The separator between a key and its value. Any token will do, as in the reference.
  void take_separator() { take(); }
  uint64_t take_integer() { return parse_integer(take()); }
  // A size in MiB as bytes, cut where the product would not fit 64 bits.
  uint64_t take_megabytes();
  double take_fraction() { return parse_fraction(take()); }
  // Exactly "True" or "False".
  bool take_flag();
  // Passes over a value: one token, or a list up to its closing bracket.
  void skip_value();

 private:
  // Throws at the end of the list.
  const std::string& next() const;

  const std::vector<std::string>& tokens_;
  size_t position_;
};

}  // namespace cachalot
