// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts live blocks, and closes only when there are none: what is behind it can go then, although
// callers may still come.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace cachalot::ort {

class Gate {
 public:
  // One more block, or an attempt to get one; false once it is closed.
  bool enter() {
    uint64_t now = count_.load(std::memory_order_relaxed);
    do {
      if (now == kClosed) return false;
    } while (!count_.compare_exchange_weak(now, now + 1, std::memory_order_acquire));
    return true;
  }

  // So many are gone. Stays at none: a block that others have of the same allocator and that is freed
  // here was never counted.
  void leave(uint64_t count = 1) {
    uint64_t now = count_.load(std::memory_order_relaxed);
    while (now != kClosed &&
           !count_.compare_exchange_weak(now, now - std::min(now, count), std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
  }

  // False, and the number of live blocks, if there are any.
  bool close(uint64_t* live) {
    *live = 0;
    return count_.compare_exchange_strong(*live, kClosed, std::memory_order_acq_rel);
  }

  void open() { count_.store(0, std::memory_order_release); }

  uint64_t live() const {
    const uint64_t now = count_.load(std::memory_order_relaxed);
    return now == kClosed ? 0 : now;
  }

 private:
  static constexpr uint64_t kClosed = UINT64_MAX;
  std::atomic<uint64_t> count_{0};
};

}  // namespace cachalot::ort
