// SPDX-License-Identifier: MIT OR Apache-2.0
// How long calls of a driver took.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cachalot {

// Microseconds.
struct CallTimes {
  int64_t count = 0;
  int64_t total = 0;
  int64_t min = 0;
  int64_t max = 0;

  void add(int64_t microseconds) {
    min = count == 0 ? microseconds : std::min(min, microseconds);
    max = std::max(max, microseconds);
    total += microseconds;
    count++;
  }
};

// Microseconds that a call took.
template <class Call>
int64_t time_of(Call call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  const auto took = std::chrono::steady_clock::now() - begin;
  return std::chrono::duration_cast<std::chrono::microseconds>(took).count();
}

}  // namespace cachalot
