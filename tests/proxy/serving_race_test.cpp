// SPDX-License-Identifier: MIT OR Apache-2.0
// Random programs that are served, over a fake that holds work back: no block is handed out before the work is done that
// was queued before its free.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "recorded_program.h"

using namespace proxy_test;

namespace {

// The last work on each range of memory.
class Uses {
 public:
  void add(DeviceAddress begin, uint64_t size, uint64_t work) {
    const std::lock_guard guard(mutex_);
    uses_[begin] = {begin + size, work};
  }
  // The range is handed out anew. Gives whether all work on it is done.
  bool end(DeviceAddress begin, uint64_t size, uint64_t finished) {
    const std::lock_guard guard(mutex_);
    auto at = uses_.lower_bound(begin);
    if (at != uses_.begin() && std::prev(at)->second.end > begin) --at;
    bool are_done = true;
    while (at != uses_.end() && at->first < begin + size) {
      are_done = are_done && at->second.work <= finished;
      at = uses_.erase(at);
    }
    return are_done;
  }

 private:
  struct Use {
    DeviceAddress end;
    uint64_t work;
  };
  std::mutex mutex_;
  std::map<DeviceAddress, Use> uses_;
};

struct Block {
  DeviceAddress address;
  uint64_t size;
  StreamHandle stream;
};

// One thread of a program. Ends the process with 3 at a block that is still in use.
class Worker {
 public:
  Worker(const Driver& driver, Uses* uses, unsigned seed)
      : driver_(driver), uses_(*uses), random_(seed) {}

  void run(int steps) {
    driver_.use();
    const StreamHandle streams[] = {make_stream(driver_), make_stream(driver_)};
    for (int i = 0; i < steps; i++) {
      const uint64_t choice = random_() % 20;
      if (choice == 0)
        capture(streams[0]);
      else if (choice < 10 || blocks_.empty())
        obtain(streams[random_() % 2]);
      else
        give_back(streams[random_() % 2]);
    }
    while (!blocks_.empty()) give_back(streams[0]);
  }

 private:
  void obtain(StreamHandle stream) {
    const uint64_t sizes[] = {5000, 300000, 3 << 20, 12 << 20};
    Block block{0, 1 + random_() % sizes[random_() % 4], random_() % 3 == 0 ? stream : nullptr};
    if (block.stream == nullptr)
      CHECK(driver_.cuMemAlloc_v2(&block.address, block.size) == 0);
    else
      CHECK(driver_.cuMemAllocAsync(&block.address, block.size, stream) == 0);
    // Its own stream may use it again at once, since that does its work in order.
    if (!uses_.end(block.address, block.size, driver_.fake_finished()) && block.stream == nullptr)
      std::_Exit(3);
    blocks_.push_back(block);
  }

  void give_back(StreamHandle stream) {
    const size_t index = random_() % blocks_.size();
    std::swap(blocks_[index], blocks_.back());
    const Block block = blocks_.back();
    blocks_.pop_back();
    // Work of whichever stream.
    if (block.stream == nullptr) uses_.add(block.address, block.size, driver_.fake_queue_work());
    if (block.stream == nullptr && random_() % 4 != 0)
      CHECK(driver_.cuMemFree_v2(block.address) == 0);
    else
      CHECK(driver_.cuMemFreeAsync(block.address, stream) == 0);
  }

  void capture(StreamHandle stream) {
    CHECK(driver_.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
    for (int i = 0; i < 3; i++) {
      DeviceAddress address = 0;
      CHECK(driver_.cuMemAlloc_v2(&address, 5000) == 0);
      if (!uses_.end(address, 5000, driver_.fake_finished())) std::_Exit(3);
      blocks_.push_back({address, 5000, nullptr});
      give_back(stream);
    }
    Graph graph = nullptr;
    CHECK(driver_.cuStreamEndCapture(stream, &graph) == 0 && graph != nullptr);
  }

  const Driver& driver_;
  Uses& uses_;
  std::mt19937 random_;
  std::vector<Block> blocks_;
};

// Of which a thread's blocks are a multiple.
constexpr const char* kSmallLeash = "1MiB";

int run_random(const std::string& rule, unsigned seed, bool has_fault, const char* leash = "") {
  const auto program = [&](const Driver& driver) {
    if (has_fault) driver.fake_let_events_be_early();
    Uses uses;
    std::atomic<bool> is_over{false};
    std::thread finisher([&] {
      uint64_t finished = 0;
      while (!is_over) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        driver.fake_finish_to(finished);  // what was queued a while ago
        finished = driver.fake_queue_work();
      }
      driver.fake_finish_work();
    });
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; i++)
      threads.emplace_back(
          [&, i] { Worker(driver, &uses, seed + i).run(rule == "wait" ? 400 : 3000); });
    for (std::thread& thread : threads) thread.join();
    is_over = true;
    finisher.join();
  };
  const RecordedRun run = run_recorded(program, {{"CACHALOT_RUN_FREE", rule},
                                                 {"CACHALOT_RUN_LEASH", leash},
                                                 {"CACHALOT_RUN_ASYNC", "cachalot"},
                                                 {"CACHALOT_RECORD", ""}});
  EXPECT_EQ(run.output, "");
  return WIFEXITED(run.status) ? WEXITSTATUS(run.status) : -1;
}

TEST(ServingOfThreads, HandsOutNoBlockThatWorkStillUses) {
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE("CACHALOT_TEST_SEED=" + std::to_string(seed));
  for (const char* rule : {"wait", "event"}) EXPECT_EQ(run_random(rule, seed, false), 0) << rule;
  EXPECT_EQ(run_random("event", seed, false, kSmallLeash), 0);
}

TEST(ServingOfThreads, FindsThePlantedFault) {
  for (const char* rule : {"wait", "event"}) EXPECT_EQ(run_random(rule, 1, true), 3) << rule;
}

}  // namespace
