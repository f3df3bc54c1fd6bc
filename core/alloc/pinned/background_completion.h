// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of pinned_use_background_threads [pinned 7].
#pragma once

#include <condition_variable>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace cachalot {

// Owns a thread that does its work again and again, once it was started.
class BackgroundCompletion {
 public:
  BackgroundCompletion() = default;
  ~BackgroundCompletion() { stop(); }
  BackgroundCompletion(const BackgroundCompletion&) = delete;
  BackgroundCompletion& operator=(const BackgroundCompletion&) = delete;

  // Nothing where it runs. work: throws nothing. Throws std::system_error.
  void start(std::function<void()> work);
  // Waits for the thread's end.
  void stop();

 private:
  void run(const std::function<void()>& work);

  Mutex lock_{LockRank::kPinnedThread};
  std::condition_variable_any stopping_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace cachalot
