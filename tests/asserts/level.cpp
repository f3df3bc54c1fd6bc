// SPDX-License-Identifier: MIT OR Apache-2.0
// Compiled once with each level.
#include "level.h"

#include "base/assert.h"

namespace cachalot {

template <>
Evaluated evaluated_at<CACHALOT_ASSERT_LEVEL>() {
  Evaluated evaluated;
  CACHALOT_ASSERT(1, ++evaluated.of_level_1 > 0);
  CACHALOT_ASSERT(2, ++evaluated.of_level_2 > 0);
  return evaluated;
}

template <>
void fail_at<CACHALOT_ASSERT_LEVEL>(int level) {
  CACHALOT_ASSERT(1, level != 1);
  CACHALOT_ASSERT(2, level != 2);
}

}  // namespace cachalot

namespace {

constexpr int half(int n) {
  CACHALOT_ASSERT(1, n % 2 == 0);
  return n / 2;
}
static_assert(half(4) == 2, "constant expressions may have assertions");

}  // namespace
