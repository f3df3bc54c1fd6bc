// SPDX-License-Identifier: MIT OR Apache-2.0
// How long calls of the simulated driver take.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "device/sim_calls.h"

namespace cachalot {

class SimLatencies {
 public:
  void set(uint32_t calls, uint64_t nanoseconds);

  void wait(SimCall call) const {
    const uint64_t time = nanoseconds_[sim_call_index(call)].load(std::memory_order_relaxed);
    if (time != 0) pause(time);
  }

 private:
  static void pause(uint64_t nanoseconds);

  std::array<std::atomic<uint64_t>, kSimCallCount> nanoseconds_{};
};

}  // namespace cachalot
