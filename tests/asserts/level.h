// SPDX-License-Identifier: MIT OR Apache-2.0
// What a source with an assertion of each level does, by the level that it is compiled with.
#pragma once

namespace cachalot {

struct Evaluated {
  int of_level_1 = 0;
  int of_level_2 = 0;

  bool operator==(const Evaluated&) const = default;
};

template <int kLevel>
Evaluated evaluated_at();
// Breaks the assertion of this level.
template <int kLevel>
void fail_at(int level);

template <>
Evaluated evaluated_at<0>();
template <>
Evaluated evaluated_at<1>();
template <>
Evaluated evaluated_at<2>();
template <>
void fail_at<0>(int level);
template <>
void fail_at<1>(int level);
template <>
void fail_at<2>(int level);

}  // namespace cachalot
