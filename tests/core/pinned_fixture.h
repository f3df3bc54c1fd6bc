// SPDX-License-Identifier: MIT OR Apache-2.0
// What the tests of pinned memory share: its allocator over a simulated machine, the calls that it makes, and the
// lines that it gives to its log.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../count_of.h"
#include "alloc/pinned/pinned_allocator.h"
#include "base/error.h"
#include "base/units.h"
#include "device/sim_driver.h"

namespace cachalot {

using cachalot_test::count_of;

// Any thread.
class KeptLog {
 public:
  LogSink sink() {
    return [this](LogLevel level, const char* message) {
      const std::lock_guard lock(lock_);
      (level == LogLevel::kDifference ? differences_ : warnings_).emplace_back(message);
    };
  }
  std::vector<std::string> warnings() const {
    const std::lock_guard lock(lock_);
    return warnings_;
  }
  std::vector<std::string> differences() const {
    const std::lock_guard lock(lock_);
    return differences_;
  }

 private:
  mutable std::mutex lock_;
  std::vector<std::string> warnings_;
  std::vector<std::string> differences_;
};

// At the end everything has been given back.
class PinnedTest : public testing::Test {
 protected:
  explicit PinnedTest(int devices = 1) : driver(SimOptions{GiB, devices}) {
    driver.machine().log_calls(kLogCalls | kLogQueries);
  }

  void TearDown() override {
    if (allocator) {
      EXPECT_EQ(allocator->check(), "");
      close();
    }
  }

  void open(const PinnedSettings& settings = {}, Release release = Release::k2_15) {
    rules = rules_of(release);
    log = std::make_unique<Log>(kept.sink());
    allocator = std::make_unique<PinnedAllocator>(driver, rules, *log, settings);
  }

  void close() {
    allocator.reset();
    calls();
    EXPECT_EQ(pinned_bytes(), 0u);
    EXPECT_EQ(worked("host_alloc "), worked("host_free"));
    EXPECT_EQ(worked("host_register "), worked("host_unregister"));
    EXPECT_EQ(worked("event_create"), worked("event_destroy"));
  }

  // What the driver was asked since the last look.
  std::string calls() {
    std::string text(driver.machine().take_calls(nullptr, 0), '\0');
    driver.machine().take_calls(text.data(), text.size() + 1);
    all_calls += text;
    return text;
  }
  // Of all calls so far.
  size_t worked(const std::string& call) const {
    size_t count = 0;
    for (size_t begin = 0; begin < all_calls.size();) {
      const size_t end = all_calls.find('\n', begin);
      const std::string line = all_calls.substr(begin, end - begin);
      if (line.find(call) == 0 && count_of(line, " oom") + count_of(line, " error") == 0) count++;
      begin = end + 1;
    }
    return count;
  }
  uint64_t pinned_bytes() {
    const auto lock = driver.machine().enter();
    return driver.machine().pinned_memory().used_bytes();
  }

  void fail(SimCall call, uint64_t count = 1, uint64_t after = 0) {
    driver.machine().fail({static_cast<uint32_t>(call), kFailure, after, count});
  }

  Address allocate(uint64_t size) { return allocator->allocate(size, 0, 0); }
  // Freed, with work left on the stream.
  Address waiting_block(uint64_t size, Stream stream, int device = 0) {
    const Address block = allocate(size);
    driver.machine().queue_work(device, stream);
    allocator->record_stream(block, device, stream);
    allocator->free(block);
    return block;
  }
  void finish(Stream stream, int device = 0) { driver.machine().finish_stream(device, stream); }

  static Error error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "the call has worked";
    return Error(Status::kInternal, "");
  }
  static Status status_of(const std::function<void()>& call) { return error_of(call).status(); }

  // False: it has not come for long.
  static bool comes(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  int64_t obtained() { return allocator->stats().allocations.current; }
  int64_t active() { return allocator->stats().active_requests.current; }
  int64_t active_bytes() { return allocator->stats().active_bytes.current; }

  static constexpr DriverCode kFailure = 999;

  SimDriver driver;
  KeptLog kept;
  Rules rules;
  std::string all_calls;
  std::unique_ptr<Log> log;
  std::unique_ptr<PinnedAllocator> allocator;
};

}  // namespace cachalot
