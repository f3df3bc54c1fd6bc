// SPDX-License-Identifier: MIT OR Apache-2.0
// Time that never goes back.
#pragma once

#include <cstdint>
#include <ctime>

namespace cachalot::proxy {

inline int64_t nanoseconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

// Nanoseconds since some moment in the past.
inline int64_t now_ns() { return nanoseconds_of(CLOCK_MONOTONIC); }

}  // namespace cachalot::proxy
