// SPDX-License-Identifier: MIT OR Apache-2.0
#include "jobs.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

#include "../progress.h"
#include "trial.h"

namespace cachalot::cli {
namespace {

std::atomic<bool> is_cancelled{false};

void cancel(int signal) {
  is_cancelled.store(true, std::memory_order_relaxed);
  std::signal(signal, SIG_DFL);
}

// What the threads of one run share.
class Queue {
 public:
  Queue(const std::string& label, const std::vector<std::function<void()>>& jobs)
      : jobs_(jobs), bar_(label) {}

  void work() {
    while (const std::function<void()>* const job = take()) {
      try {
        (*job)();
      } catch (const Cancelled&) {
      } catch (...) {
        fail(std::current_exception());
      }
      finish_one();
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const std::function<void()>* take() {
    const std::lock_guard lock(mutex_);
    if (next_ == jobs_.size() || failure_ || Cancellation::is_set()) return nullptr;
    return &jobs_[next_++];
  }
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  void finish_one() {
    const std::lock_guard lock(mutex_);
    bar_.show(++done_, jobs_.size());
  }

  const std::vector<std::function<void()>>& jobs_;
  std::mutex mutex_;
  ProgressBar bar_;
  size_t next_ = 0;
  size_t done_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

Cancellation::Cancellation() { std::signal(SIGINT, cancel); }
Cancellation::~Cancellation() { std::signal(SIGINT, SIG_DFL); }
const std::atomic<bool>& Cancellation::flag() { return is_cancelled; }

Jobs::Jobs(unsigned threads)
    : threads_(threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency())) {}

void Jobs::run(const std::string& label, const std::vector<std::function<void()>>& jobs) const {
  Queue queue(label, jobs);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min<size_t>(threads_, jobs.size()); i++)
    threads.emplace_back([&queue] { queue.work(); });
  for (std::thread& thread : threads) thread.join();
  queue.rethrow();
}

}  // namespace cachalot::cli
