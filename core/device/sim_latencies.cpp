// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_latencies.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace cachalot {
namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kSleepFrom = 100'000;
// A longer one would overflow the clock.
constexpr uint64_t kLongest = 1'000'000'000'000'000;

}  // namespace

void SimLatencies::set(uint32_t calls, uint64_t time) {
  for (size_t i = 0; i < kSimCallCount; i++) {
    if ((calls >> i & 1) != 0) {
      nanoseconds_[i].store(std::min(time, kLongest), std::memory_order_relaxed);
    }
  }
}

void SimLatencies::pause(uint64_t time) {
  const nanoseconds duration(static_cast<int64_t>(time));
  if (time >= kSleepFrom) return std::this_thread::sleep_for(duration);
  // Too short to sleep: the scheduler alone takes longer.
  const Clock::time_point end = Clock::now() + duration;
  while (Clock::now() < end) {
  }
}

}  // namespace cachalot
