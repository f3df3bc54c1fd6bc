// SPDX-License-Identifier: MIT OR Apache-2.0
// The whole interface on threads whose stack has 64 KiB, as runtimes with many threads have them.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "tour.h"

namespace {

constexpr size_t kStack = 64 * 1024;
constexpr size_t kGuard = 64 * 1024;  // a call that needs more ends the process
constexpr size_t kMostUsed = 40 * 1024;
constexpr unsigned char kPaint = 0xA5;

struct Walk {
  const char* driver;
  const char* config;
  Tour* tour;
};

void* walk(void* argument) {
  const Walk& walk = *static_cast<Walk*>(argument);
  walk.tour->walk(walk.driver, walk.config);
  return nullptr;
}

// Bytes of the stack that were ever written, those of the C library for the thread included.
size_t used_by(Walk what) {
  char* const memory = static_cast<char*>(
      mmap(nullptr, kGuard + kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  char* const stack = memory + kGuard;
  mprotect(stack, kStack, PROT_READ | PROT_WRITE);
  std::memset(stack, kPaint, kStack);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT_EQ(pthread_attr_setstack(&attributes, stack, kStack), 0);
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, &attributes, walk, &what), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  size_t untouched = 0;
  while (untouched < kStack && static_cast<unsigned char>(stack[untouched]) == kPaint) untouched++;
  munmap(memory, kGuard + kStack);
  return kStack - untouched;
}

TEST(AThreadWithASmallStack, CanMakeEveryCall) {
  for (const char* driver : {"host:1GiB", "sim:1GiB"}) {
    for (const char* config : {"", "expandable_segments:True", "backend:cudaMallocAsync"}) {
      if (std::strcmp(driver, "host:1GiB") == 0 && std::strchr(config, 'A')) continue;
      SCOPED_TRACE(std::string(driver) + " " + config);
      auto tour = std::make_unique<Tour>();
      const size_t used = used_by({driver, config, tour.get()});
      EXPECT_EQ(tour->failures(), 0) << tour->first_message();
      EXPECT_LE(used, kMostUsed);
      std::printf("%s %s: %zu bytes of stack\n", driver, config, used);
    }
  }
}

}  // namespace
