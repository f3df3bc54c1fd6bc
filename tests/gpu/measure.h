// SPDX-License-Identifier: MIT OR Apache-2.0
// What the GPU programs measure with.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace gpu {

template <class Work>
double seconds_of(Work work) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// pre: there is a value.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace gpu
