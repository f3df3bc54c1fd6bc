// SPDX-License-Identifier: MIT OR Apache-2.0
// Where random tests get their numbers from: CACHALOT_TEST_SEED, if it is set, decides them all.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace cachalot {

// Prints the seed, so that a failure can be repeated.
inline uint64_t test_seed(uint64_t usual = 7) {
  const char* argument = std::getenv("CACHALOT_TEST_SEED");
  const uint64_t seed = argument ? std::strtoull(argument, nullptr, 10) : usual;
  std::cout << "CACHALOT_TEST_SEED=" << seed << std::endl;
  return seed;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t bits() { return engine_(); }
  uint64_t below(uint64_t end) { return engine_() % end; }
  uint64_t between(uint64_t first, uint64_t last) { return first + below(last - first + 1); }
  bool one_in(uint64_t n) { return below(n) == 0; }
  // Each power of two is as likely as any other. first > 0.
  uint64_t of_any_magnitude(uint64_t first, uint64_t last) {
    const double power = std::uniform_real_distribution<double>(
        std::log2(static_cast<double>(first)), std::log2(static_cast<double>(last)))(engine_);
    return std::clamp(static_cast<uint64_t>(std::exp2(power)), first, last);
  }
  template <typename Container>
  auto& pick(Container& container) {
    return container[static_cast<size_t>(below(std::size(container)))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace cachalot
