// SPDX-License-Identifier: MIT OR Apache-2.0
// Sizes and arithmetic on them.
#pragma once

#include <bit>
#include <cstdint>

#include "base/assert.h"

namespace cachalot {

inline constexpr uint64_t KiB = uint64_t{1} << 10;
inline constexpr uint64_t MiB = uint64_t{1} << 20;
inline constexpr uint64_t GiB = uint64_t{1} << 30;

inline constexpr uint64_t kUnlimited = UINT64_MAX;

constexpr uint64_t round_down(uint64_t n, uint64_t unit) {
  CACHALOT_ASSERT(1, unit != 0);
  return n / unit * unit;
}
// pre: n + unit does not run over.
constexpr uint64_t round_up(uint64_t n, uint64_t unit) {
  CACHALOT_ASSERT(1, n <= UINT64_MAX - unit);
  return round_down(n + unit - 1, unit);
}
constexpr bool is_power_of_two(uint64_t n) { return std::has_single_bit(n); }
// floor(log2 n). pre: n > 0.
constexpr unsigned log2_floor(uint64_t n) {
  CACHALOT_ASSERT(1, n > 0);
  return 63u - static_cast<unsigned>(std::countl_zero(n));
}

}  // namespace cachalot
