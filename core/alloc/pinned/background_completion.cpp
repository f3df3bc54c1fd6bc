// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/background_completion.h"

#include <chrono>
#include <mutex>
#include <utility>

namespace cachalot {
namespace {

// The reference's.
constexpr std::chrono::microseconds kInterval{100};

}  // namespace

void BackgroundCompletion::start(std::function<void()> work) {
  const std::lock_guard lock(lock_);
  if (thread_.joinable() || is_stopping_) return;
  thread_ = std::thread([this, work = std::move(work)] { run(work); });
}

void BackgroundCompletion::run(const std::function<void()>& work) {
  std::unique_lock lock(lock_);
  while (!stopping_.wait_for(lock, kInterval, [this] { return is_stopping_; })) {
    lock.unlock();
    work();
    lock.lock();
  }
}

void BackgroundCompletion::stop() {
  {
    const std::lock_guard lock(lock_);
    is_stopping_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace cachalot
