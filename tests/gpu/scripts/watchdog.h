// SPDX-License-Identifier: MIT OR Apache-2.0
// Frees a script that waits for work which nobody ends: a device can wait inside a call where the
// oracle's does not.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "held_streams.h"

namespace cachalot::gpu {

class Watchdog {
 public:
  explicit Watchdog(HeldStreams& streams) : streams_(streams), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard guard(lock_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Another operation begins, which has all the time again.
  void begin() { steps_++; }
  // Whether an operation took too long.
  bool has_bitten() const { return has_bitten_; }

 private:
  void watch() {
    std::unique_lock guard(lock_);
    uint64_t seen = 0;
    while (!changed_.wait_for(guard, std::chrono::seconds(3), [this] { return is_over_; })) {
      if (steps_ == seen) {
        has_bitten_ = true;
        streams_.let_go();
      }
      seen = steps_;
    }
  }

  HeldStreams& streams_;
  std::atomic<uint64_t> steps_{0};
  std::atomic<bool> has_bitten_{false};
  std::mutex lock_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace cachalot::gpu
