// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_log.h"

#include <charconv>
#include <cstring>

#include "base/assert.h"

namespace cachalot {
namespace {

template <class Number>
void append_number(std::string* text, Number number, int base) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, base).ptr;
  text->append(digits, end);
}

}  // namespace

void SimLog::append(int part) { append_number(&text_, part, 10); }
void SimLog::append(uint64_t part) { append_number(&text_, part, 10); }
void SimLog::append(Hex part) { append_number(&text_, part.value, 16); }

void SimLog::append(Outcome part) {
  if (part.code == kSuccess) return;
  if (part.code == kDriverOutOfMemory) return append(" oom");
  append(" error ");
  append(part.code);
}

size_t SimLog::take(char* buffer, size_t capacity) {
  CACHALOT_ASSERT(1, taken_ <= text_.size());
  const std::string_view waiting = std::string_view(text_).substr(taken_);
  const size_t waiting_length = waiting.size();
  if (capacity == 0) return waiting_length;
  const std::string_view fitting = waiting.substr(0, capacity - 1);
  const size_t length = fitting.rfind('\n') + 1;  // npos + 1 is 0
  CACHALOT_ASSERT(1, length < capacity);
  std::memcpy(buffer, fitting.data(), length);
  buffer[length] = '\0';
  taken_ += length;
  // What is gone is cut off only when it is the larger part, so that a byte is moved once on
  // average.
  if (taken_ * 2 >= text_.size()) {
    text_.erase(0, taken_);
    taken_ = 0;
  }
  return waiting_length;
}

}  // namespace cachalot
