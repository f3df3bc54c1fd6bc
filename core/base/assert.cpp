// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace cachalot {

// A library without assertions has no such function, so that one that was put together from objects
// of different levels does not link.
#if CACHALOT_ASSERT_LEVEL > 0
void assertion_failed(const char* file, int line, const char* function, const char* condition) {
  std::fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, function, condition);
  std::abort();
}
#endif

}  // namespace cachalot
