// SPDX-License-Identifier: MIT OR Apache-2.0
// What is asked of the two models, the same in every run: one image for detection, then some lines of text for
// recognition, all of varying sizes.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace comparison {

// Pixels, as the models take them.
struct Shape {
  int64_t height;
  int64_t width;
};

struct Request {
  Shape image;
  std::vector<Shape> lines;
};

constexpr int64_t kLargestSide = 640;
constexpr int64_t kLineHeight = 48;
constexpr int64_t kLongestLine = 640;

// Only the engine is random, whose numbers every standard library makes alike.
inline std::vector<Request> make_sequence(size_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto between = [&engine](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  };
  std::vector<Request> requests(count);
  for (Request& request : requests) {
    request.image = {32 * between(5, kLargestSide / 32), 32 * between(5, kLargestSide / 32)};
    request.lines.resize(static_cast<size_t>(between(1, 8)));
    for (Shape& line : request.lines) line = {kLineHeight, 8 * between(4, kLongestLine / 8)};
  }
  return requests;
}

}  // namespace comparison
