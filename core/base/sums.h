// SPDX-License-Identifier: MIT OR Apache-2.0
// Sums that only grow, in signed numbers: whatever is added, they are defined and never negative.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cachalot {

// Modulo 2^64, where signed addition is not defined.
constexpr int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
constexpr int64_t wrapping_multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// A number of bytes as a signed one: the highest where it does not fit, which a driver may say.
constexpr int64_t shown_bytes(uint64_t bytes) {
  return static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
}

// Modulo 2^63, which is how sums are shown: behind 2^63 - 1 comes 0, as a counter that was reset.
constexpr int64_t shown_sum(int64_t sum) { return sum & INT64_MAX; }
constexpr int64_t add_to_sum(int64_t sum, int64_t n) { return shown_sum(wrapping_add(sum, n)); }

}  // namespace cachalot
