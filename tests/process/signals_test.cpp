// SPDX-License-Identifier: MIT OR Apache-2.0
// Signals are the program's: calls go on when one interrupts them, and the library handles none.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tour.h"

namespace {

std::atomic<uint64_t> handled{0};
std::atomic<bool> was_on_own_stack{true};

void count_signal(int, siginfo_t*, void*) {
  stack_t stack{};
  sigaltstack(nullptr, &stack);
  if ((stack.ss_flags & (SS_ONSTACK | SS_DISABLE)) == 0) was_on_own_stack = false;
  handled++;
}

// As the runtime of Go asks for them: on a stack of its own, and without restarting system calls.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction action {};
    action.sa_sigaction = count_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGURG, &action, &before_);
  }
  ~SignalStorm() { sigaction(SIGURG, &before_, nullptr); }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

 private:
  struct sigaction before_ {};
};

class OwnSignalStack {
 public:
  OwnSignalStack() {
    stack_t stack{};
    stack.ss_sp = memory_.data();
    stack.ss_size = memory_.size();
    sigaltstack(&stack, nullptr);
  }
  ~OwnSignalStack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  OwnSignalStack(const OwnSignalStack&) = delete;
  OwnSignalStack& operator=(const OwnSignalStack&) = delete;

 private:
  std::vector<char> memory_ = std::vector<char>(64 * 1024);
};

cachalot_allocator* make(cachalot_driver* driver) {
  auto options = sized<cachalot_allocator_options>();
  options.driver = driver;
  options.config = "";
  cachalot_allocator* allocator = nullptr;
  EXPECT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  return allocator;
}

TEST(SignalsAmidThreads, InterruptNoCall) {
  const SignalStorm storm;
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_driver_open("sim:1GiB", &driver, nullptr), CACHALOT_OK);
  // Calls of the driver that take a while, so that others sleep at the lock.
  ASSERT_EQ(cachalot_sim_set_latency(driver, CACHALOT_SIM_CALL_ALLOCATE | CACHALOT_SIM_CALL_FREE,
                                     200'000, nullptr),
            CACHALOT_OK);
  cachalot_allocator* const allocator = make(driver);
  std::atomic<int> working{4};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      const OwnSignalStack stack;
      for (int round = 0; round < 200; round++) {
        cachalot_address small = 0;
        cachalot_address large = 0;
        if (cachalot_allocate(allocator, 512, 0, 0, &small, nullptr) != CACHALOT_OK) failures++;
        if (cachalot_allocate(allocator, 20 << 20, 0, 0, &large, nullptr) != CACHALOT_OK)
          failures++;
        if (cachalot_free(allocator, large, nullptr) != CACHALOT_OK) failures++;
        if (cachalot_free(allocator, small, nullptr) != CACHALOT_OK) failures++;
        if (round % 4 == 0 && cachalot_empty_cache(allocator, nullptr) != CACHALOT_OK) failures++;
      }
      working--;
      while (working != 0) usleep(100);  // so that a signal finds its thread
    });
  }
  while (working != 0) {
    for (std::thread& thread : threads) pthread_kill(thread.native_handle(), SIGURG);
    usleep(20);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(handled, 100u);
  EXPECT_TRUE(was_on_own_stack);
  EXPECT_EQ(cachalot_check(allocator, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(driver);
}

void host_handler(int, siginfo_t*, void*) {}

using Handlers = std::array<struct sigaction, NSIG>;

Handlers all_handlers() {
  Handlers handlers{};
  for (int signal = 1; signal < NSIG; signal++)
    sigaction(signal, nullptr, &handlers[static_cast<size_t>(signal)]);
  return handlers;
}

// Java's and Go's own handlers are to stay where they are.
TEST(TheLibrary, LeavesHandlersMasksAndSignalStacksAlone) {
  struct sigaction action {};
  action.sa_sigaction = host_handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
  const OwnSignalStack stack;
  stack_t stack_before{};
  sigaltstack(nullptr, &stack_before);
  sigset_t mask_before;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  const Handlers handlers = all_handlers();
  auto tour = std::make_unique<Tour>();
  tour->walk("host:1GiB", "expandable_segments:True");
  tour->walk("sim:1GiB", "backend:cudaMallocAsync");
  EXPECT_EQ(tour->failures(), 0) << tour->first_message();
  const Handlers now = all_handlers();
  for (size_t signal = 1; signal < handlers.size(); signal++) {
    EXPECT_EQ(handlers[signal].sa_sigaction, now[signal].sa_sigaction) << "signal " << signal;
    EXPECT_EQ(handlers[signal].sa_flags, now[signal].sa_flags) << "signal " << signal;
  }
  sigset_t mask_now;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_now);
  for (int signal = 1; signal < NSIG; signal++)
    EXPECT_EQ(sigismember(&mask_before, signal), sigismember(&mask_now, signal));
  stack_t stack_now{};
  sigaltstack(nullptr, &stack_now);
  EXPECT_EQ(stack_before.ss_sp, stack_now.ss_sp);
  sigaction(SIGSEGV, &before, nullptr);
}

}  // namespace
