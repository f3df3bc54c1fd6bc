// SPDX-License-Identifier: MIT OR Apache-2.0
// The system's clock, as events of the history and of recordings tell it.
#pragma once

#include <chrono>
#include <cstdint>

namespace cachalot {

inline int64_t microseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace cachalot
