// SPDX-License-Identifier: MIT OR Apache-2.0
// Text that the GPU programs write.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <string>

#include "check.h"

namespace gpu {

__attribute__((format(printf, 1, 2))) inline std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  require(!file.fail(), path + ": could not be written");
}

}  // namespace gpu
