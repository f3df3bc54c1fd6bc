// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads a JSON text value by value, without building a tree: as much of JSON as a trace's header
// needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"

namespace cachalot {

// What is not well formed throws Error(kIo) with the column. Each value must be read or skipped
// once.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // Calls on_member(name) at the value of each member of an object.
  template <typename Function>
  void object(Function on_member) {
    enter('{');
    if (take('}')) return leave();
    do {
      const std::string name = string();
      expect(':');
      on_member(name);
    } while (take(','));
    expect('}');
    leave();
  }

  // What the next value begins with: '{', '[', '"', a digit or '-', or a letter; 0 at the end.
  char next();
  std::string string();
  // A whole number; anything else throws.
  int64_t integer();
  // A number that is a whole one of 64 bits; anything else is skipped, and false.
  bool take_integer(int64_t* value);
  void skip();
  // Nothing may follow.
  void end();

 private:
  [[noreturn]] void fail(const char* what) const;
  bool take(char wanted);
  void expect(char wanted);
  void enter(char bracket);
  void leave() {
    CACHALOT_ASSERT(1, depth_ > 0);
    depth_--;
  }
  std::string_view number();
  void literal();
  void array();
  uint32_t escaped_unit();
  uint32_t surrogate_pair(uint32_t high);
  void append_escape(std::string* text);

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

// Appends a text as a JSON string, quotes included.
void append_json_string(std::string* out, std::string_view text);

}  // namespace cachalot
