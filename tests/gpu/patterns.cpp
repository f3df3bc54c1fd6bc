// SPDX-License-Identifier: MIT OR Apache-2.0
// Contents are never shared by two live blocks: threads fill blocks with patterns, use them on other
// streams, compare them before they free them (some through another thread), while a limit on the
// device's memory makes the allocator miss, release its cache and try again.
//
// Usage: patterns [--seconds 10] [--seed N] [--threads 8] [--streams 3] [--max-size 256MiB]
//                 [--limit 8GiB] [--config STRING]... [--omit nothing|record-stream] [--driver cuda]
//   --seconds  for each option string; without --config there are four
//   --streams  of each thread
//   --driver   another one tells about the program, not about the GPU
//   --omit     record-stream: a planted fault, which must be found
// Exit code: 0 no word differed; 1 some did, or a call failed; 77 no GPU.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "../test_seed.h"
#include "allocator.h"
#include "flags.h"
#include "mismatches.h"
#include "streams.h"

namespace {

using cachalot::Random;
using gpu::Allocator;

constexpr uint64_t kSmallest = 512;

struct Options {
  uint64_t seconds;
  uint64_t seed;
  uint64_t threads;
  uint64_t streams;
  uint64_t max_size;
  uint64_t limit;
  std::vector<std::string> configs;
  bool omit_record_stream;
  std::string driver;
};

struct Block {
  cachalot_address address;
  uint64_t size;
  uint32_t number;
  cudaStream_t home;
};

struct Tally {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t side_uses = 0;
  uint64_t handed_over = 0;
  uint64_t refused = 0;

  void add(const Tally& other) {
    blocks += other.blocks;
    bytes += other.bytes;
    side_uses += other.side_uses;
    handed_over += other.handed_over;
    refused += other.refused;
  }
};

// Blocks that other threads leave for a thread to free.
class Inbox {
 public:
  void put(cachalot_address address) {
    const std::lock_guard lock(mutex_);
    addresses_.push_back(address);
  }
  std::vector<cachalot_address> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(addresses_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<cachalot_address> addresses_;
};

// What the threads of one run share.
class Run {
 public:
  Run(const Options& run_options, const std::string& config)
      : options(run_options),
        streams(options.threads * options.streams),
        allocator(config, options.driver),
        inboxes(options.threads) {
    allocator.set_limit(0, options.limit);
  }

  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why;
    stop = true;
  }
  // Once the threads have ended.
  const std::string& failure() const { return failure_; }

  const Options& options;
  gpu::Streams streams;
  gpu::Mismatches mismatches;
  Allocator allocator;
  std::vector<Inbox> inboxes;
  std::atomic<uint32_t> last_number{0};
  std::atomic<bool> stop{false};

 private:
  std::mutex mutex_;
  std::string failure_;
};

class Worker {
 public:
  Worker(Run& run, size_t index)
      : run_(run),
        index_(index),
        random_(run.options.seed * 1000 + index),
        // Three quarters of the limit: together with what fragments, more than there is.
        share_(run.options.omit_record_stream ? 0
                                              : run.options.limit / 4 * 3 / run.options.threads) {}

  const Tally& tally() const { return tally_; }

  void work() {
    try {
      while (!run_.stop) step();
      while (!live_.empty()) retire();
    } catch (const std::exception& failure) {
      run_.fail(failure.what());
    }
  }

  void free_inbox() {
    for (cachalot_address address : run_.inboxes[index_].take()) run_.allocator.free(address);
  }

 private:
  void step() {
    Block block = {0, random_size(), 0, own_stream()};
    if (!obtain(block)) return;
    CHECK_CUDA(gpu::fill_pattern(block.address, block.size, block.number, block.home));
    tally_.blocks++;
    tally_.bytes += block.size;
    if (run_.options.omit_record_stream || random_.one_in(2)) use_elsewhere(block);
    live_.push_back(block);
    live_bytes_ += block.size;
    while (live_bytes_ > share_) retire();
    free_inbox();
    if (random_.one_in(2000)) run_.allocator.empty_cache();
    if (random_.one_in(200)) CHECK_CUDA(cudaStreamSynchronize(own_stream()));
  }

  uint64_t random_size() {
    return random_.of_any_magnitude(kSmallest, run_.options.max_size) / 4 * 4;
  }
  cudaStream_t own_stream() {
    return run_.streams[index_ * run_.options.streams + random_.below(run_.options.streams)];
  }

  // Makes room among the thread's own blocks where there is none; false if the run ends meanwhile.
  bool obtain(Block& block) {
    while (!(block.address = run_.allocator.allocate_if_possible(block.size, 0, block.home))) {
      tally_.refused++;
      if (run_.stop) return false;
      free_inbox();
      for (size_t half = (live_.size() + 1) / 2; half; half--) retire();
      if (live_.empty()) std::this_thread::yield();
    }
    block.number = ++run_.last_number;
    return true;
  }

  void use_elsewhere(const Block& block) {
    const cudaStream_t side = run_.streams[random_.below(run_.streams.size())];
    filled_.order(block.home, side);
    // Late work is what a block must wait for.
    if (run_.options.omit_record_stream || random_.one_in(16)) {
      CHECK_CUDA(gpu::hold_stream(random_.between(100, 1000), side));
    }
    verify(block, side);
    if (!run_.options.omit_record_stream) run_.allocator.record_stream(block.address, side);
    tally_.side_uses++;
  }

  void retire() {
    Block& chosen = random_.pick(live_);
    const Block block = std::exchange(chosen, live_.back());
    live_.pop_back();
    live_bytes_ -= block.size;
    verify(block, block.home);
    if (random_.one_in(4)) {
      random_.pick(run_.inboxes).put(block.address);
      tally_.handed_over++;
    } else {
      run_.allocator.free(block.address);
    }
  }

  void verify(const Block& block, cudaStream_t stream) {
    CHECK_CUDA(gpu::verify_pattern(block.address, block.size, block.number,
                                   run_.mismatches.on_device(), stream));
  }

  Run& run_;
  size_t index_;
  Random random_;
  gpu::Event filled_;
  uint64_t share_;
  std::vector<Block> live_;
  uint64_t live_bytes_ = 0;
  Tally tally_;
};

bool is_native(const std::string& config) { return config.find("backend:") == std::string::npos; }

Tally work_for(Run& run) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (size_t i = 0; i < run.options.threads; i++) {
    workers.push_back(std::make_unique<Worker>(run, i));
  }
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  for (const auto& worker : workers) threads.emplace_back([&worker] { worker->work(); });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(run.options.seconds);
  while (!run.stop && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  run.stop = true;
  for (std::thread& thread : threads) thread.join();
  Tally tally;
  for (const auto& worker : workers) tally.add(worker->tally());
  gpu::require(run.failure().empty(), run.failure());
  for (const auto& worker : workers) worker->free_inbox();
  return tally;
}

void print_tally(const Options& options, const Tally& tally, const cachalot_stats& stats) {
  printf(
      "  %llu s, %llu threads of %llu streams: %llu blocks, %.1f GiB written, %llu used on another"
      " stream, %llu freed by another thread, %llu requests refused\n",
      static_cast<unsigned long long>(options.seconds),
      static_cast<unsigned long long>(options.threads),
      static_cast<unsigned long long>(options.streams),
      static_cast<unsigned long long>(tally.blocks), static_cast<double>(tally.bytes) / (1 << 30),
      static_cast<unsigned long long>(tally.side_uses),
      static_cast<unsigned long long>(tally.handed_over),
      static_cast<unsigned long long>(tally.refused));
  printf("  driver allocations %lld, driver frees %lld, retries %lld, out of memory %lld\n",
         static_cast<long long>(stats.num_device_alloc),
         static_cast<long long>(stats.num_device_free),
         static_cast<long long>(stats.num_alloc_retries), static_cast<long long>(stats.num_ooms));
}

bool run_config(const Options& options, const std::string& config) {
  printf("options \"%s\"\n", config.c_str());
  fflush(stdout);
  Run run(options, config);
  const Tally tally = work_for(run);
  const uint64_t differing = run.mismatches.print();
  const cachalot_stats stats = run.allocator.stats(0);
  print_tally(options, tally, stats);
  printf("  words that differ: %llu\n", static_cast<unsigned long long>(differing));
  const uint64_t left = cachalot_memory_allocated(run.allocator.get(), 0);
  gpu::require(left == 0, std::to_string(left) + " bytes are still handed out at the end");
  if (is_native(config)) {
    run.allocator.check();
    // A run under no pressure proves little; short runs and planted faults may not come so far.
    gpu::require(options.seconds < 10 || options.omit_record_stream || stats.num_device_free > 0,
                 "no cached memory was given back to serve a request: lower --limit");
  }
  return differing == 0;
}

Options read_options(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  Options options;
  options.seconds = flags.number("seconds", 10);
  options.seed = flags.number("seed", std::random_device()());
  options.threads = flags.number("threads", 8);
  options.streams = flags.number("streams", 3);
  options.max_size = flags.size("max-size", uint64_t{256} << 20);
  options.limit = flags.size("limit", uint64_t{8} << 30);
  options.configs = flags.list("config");
  const std::string omit = flags.text("omit", "nothing");
  options.omit_record_stream = omit == "record-stream";
  options.driver = flags.text("driver", "cuda");
  flags.reject_unknown();
  if (omit != "nothing" && omit != "record-stream") throw gpu::WrongCall("--omit: " + omit);
  if (!options.threads || !options.streams)
    throw gpu::WrongCall("--threads, --streams: at least 1");
  if (options.max_size < kSmallest) throw gpu::WrongCall("--max-size: at least 512");
  if (options.configs.empty()) {
    options.configs = {"", "expandable_segments:True",
                       "max_split_size_mb:64,garbage_collection_threshold:0.6",
                       "backend:cudaMallocAsync"};
  }
  return options;
}

bool run_all(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  gpu::require_gpus(1);
  printf("--seed %llu\n", static_cast<unsigned long long>(options.seed));
  bool passed = true;
  for (const std::string& config : options.configs) {
    try {
      passed = run_config(options, config) && passed;
    } catch (const gpu::Failure& failure) {
      printf("  failed: %s\n", failure.what());
      passed = false;
    }
  }
  printf(passed ? "passed: no word differs\n" : "failed: see above\n");
  return passed;
}

}  // namespace

int main(int argc, char** argv) {
  return gpu::run_program([&] { return run_all(argc, argv); });
}
