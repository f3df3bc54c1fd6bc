// SPDX-License-Identifier: MIT OR Apache-2.0
#include "jobs.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <mutex>
#include <optional>
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
  Queue(const std::string& label, const std::vector<std::function<void()>>& jobs,
        std::counting_semaphore<>* free_threads)
      : jobs_(jobs), free_threads_(*free_threads) {
    if (!label.empty()) bar_.emplace(label);
  }

  void work() {
    bool is_over = false;
    while (!is_over) {
      free_threads_.acquire();
      is_over = !do_next();
      free_threads_.release();
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  bool do_next() {
    const std::function<void()>* const job = take();
    if (job == nullptr) return false;
    try {
      (*job)();
    } catch (const Cancelled&) {
    } catch (...) {
      fail(std::current_exception());
    }
    finish_one();
    return true;
  }

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
    done_++;
    if (bar_) bar_->show(done_, jobs_.size());
  }

  const std::vector<std::function<void()>>& jobs_;
  std::counting_semaphore<>& free_threads_;
  std::mutex mutex_;
  std::optional<ProgressBar> bar_;
  size_t next_ = 0;
  size_t done_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

Cancellation::Cancellation() { std::signal(SIGINT, cancel); }
Cancellation::~Cancellation() { std::signal(SIGINT, SIG_DFL); }
const std::atomic<bool>& Cancellation::flag() { return is_cancelled; }

Jobs::Jobs(unsigned threads)
    : threads_(threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency())),
      free_threads_(threads_) {}

void Jobs::run(const std::string& label, const std::vector<std::function<void()>>& jobs) {
  Queue queue(label, jobs, &free_threads_);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min<size_t>(threads_, jobs.size()); i++)
    threads.emplace_back([&queue] { queue.work(); });
  for (std::thread& thread : threads) thread.join();
  queue.rethrow();
}

}  // namespace cachalot::cli
