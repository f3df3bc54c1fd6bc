// SPDX-License-Identifier: MIT OR Apache-2.0
#include "disabled.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cachalot {

bool is_disabled_for(const char* host) {
  const char* const value = secure_getenv("CACHALOT_DISABLE");
  if (value == nullptr || std::strcmp(value, "1") != 0) return false;
  std::fprintf(stderr, "cachalot: CACHALOT_DISABLE=1: %s keeps its own allocator\n", host);
  return true;
}

}  // namespace cachalot
