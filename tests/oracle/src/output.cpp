// SPDX-License-Identifier: MIT OR Apache-2.0
#include "output.h"

namespace oracle {

FILE* out = nullptr;

void line(const std::string& text) { fprintf(out, " %s\n", text.c_str()); }

std::string hex(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace oracle
