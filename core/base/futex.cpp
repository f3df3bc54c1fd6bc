// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace cachalot {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// Whether any slept.
bool wake(const std::atomic<uint32_t>& word, int count) {
  return 0 < syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace

bool futex_wait(const std::atomic<uint32_t>& word, uint32_t value, int64_t timeout_ns) {
  const timespec limit{timeout_ns / kNsPerSecond, timeout_ns % kNsPerSecond};
  const timespec* const timeout = timeout_ns == kNoTimeout ? nullptr : &limit;
  const bool is_over =
      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, timeout, nullptr, 0) != 0 &&
      errno == ETIMEDOUT;
  if (after_futex_wait) after_futex_wait();
  return !is_over;
}

bool futex_wake_one(const std::atomic<uint32_t>& word) { return wake(word, 1); }
void futex_wake_all(const std::atomic<uint32_t>& word) { wake(word, INT_MAX); }

}  // namespace cachalot
