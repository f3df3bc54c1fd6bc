// SPDX-License-Identifier: MIT OR Apache-2.0
// The words of an operation behind its first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cachalot/cachalot.h"

namespace cachalot::differential {

// Reads them one after another. Throws InputError for one that is missing or of another kind.
class Arguments {
 public:
  // line: the operation with its first word; must live as long as this.
  explicit Arguments(std::string_view line);

  // Whether a word is left.
  bool more();
  std::string_view word();
  uint64_t size();
  int64_t number();
  int32_t small_number();
  // In hexadecimal, with or without 0x.
  uint64_t hex();
  double fraction();
  // A private pool: N is (0,N), gN is (N,0).
  cachalot_pool_id pool();
  // The rest of the line behind blanks, maybe empty.
  std::string rest();
  // Nothing may be left.
  void end();

 private:
  void skip_blanks();

  std::string_view left_;
};

// The whole of a text as a number. Throws InputError.
uint64_t parse_hex(std::string_view text);

}  // namespace cachalot::differential
