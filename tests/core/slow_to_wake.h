// SPDX-License-Identifier: MIT OR Apache-2.0
// A system that is slow to run a thread that was woken, and a thread that is in the way of another one.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/futex.h"

namespace cachalot {

inline void be_busy_for(std::chrono::microseconds time) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) continue;
}

class SlowToWake {
 public:
  SlowToWake() {
    after_futex_wait = [] { be_busy_for(std::chrono::microseconds(300)); };
  }
  ~SlowToWake() { after_futex_wait = nullptr; }
  SlowToWake(const SlowToWake&) = delete;
  SlowToWake& operator=(const SlowToWake&) = delete;
};

// One thread holds something again and again, with hardly a moment in between, and longer than the
// other one spins. Each turn of the other one begins while it is held.
template <class HoldFor, class TakeTurn>
void expect_turns_beside_holds(HoldFor hold_for, TakeTurn take_turn) {
  constexpr int kTurns = 20;
  constexpr int kMostHolds = 1000;  // then the turns are given up
  const SlowToWake slow;
  std::atomic<int> turns{0};
  std::atomic<int> holds{0};
  std::thread other([&] {
    while (turns < kTurns) {
      for (const int before = holds; holds == before && turns < kTurns;) std::this_thread::yield();
      take_turn();
      turns++;
    }
  });
  const auto held = [&] {
    holds++;
    be_busy_for(std::chrono::milliseconds(2));
  };
  while (turns < kTurns && holds < kMostHolds) hold_for(held);
  EXPECT_EQ(turns, kTurns);
  turns = kTurns;
  other.join();
}

}  // namespace cachalot
