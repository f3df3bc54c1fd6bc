// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of pinned_use_background_threads [pinned 7].
//
// Note [Background completion]
// Rationale: with `pinned_use_background_threads` no request looks at events, which costs a call of the driver each. A
// block is back in its class as soon as its work is done, and not at the next request.
// Approach: one thread, which begins with the first request that has to obtain memory. It looks every 100 microseconds,
// as the reference's does, until the allocator ends.
// Limitations: in a child that was forked there is no such thread; an emptied cache looks by itself.
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
