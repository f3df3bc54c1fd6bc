// SPDX-License-Identifier: MIT OR Apache-2.0
// Sleeping until another thread changes a word.
#pragma once

#include <atomic>
#include <cstdint>

namespace cachalot {

constexpr int64_t kNoTimeout = 0;

// Returns at once where the word has another value, else after a wake, `timeout_ns`, or for no reason.
// False: it was the time.
bool futex_wait(const std::atomic<uint32_t>& word, uint32_t value, int64_t timeout_ns);
// Whether there was one that slept.
bool futex_wake_one(const std::atomic<uint32_t>& word);
void futex_wake_all(const std::atomic<uint32_t>& word);

// What a thread does when it wakes up; null: nothing. Only tests set it, for a system that is slow to
// run a thread that was woken.
inline void (*after_futex_wait)() = nullptr;

}  // namespace cachalot
