// SPDX-License-Identifier: MIT OR Apache-2.0
// Contents are never shared by two live blocks: threads fill blocks with patterns, use them on other
// streams, compare them before they free them (some through another thread), while a limit on the
// device's memory makes the allocator miss, release its cache and try again.
//
// Usage: patterns [--seconds 10] [--seed N] [--threads 8] [--streams 3] [--max-size 256MiB]
//                 [--limit 8GiB] [--live 75] [--config STRING]... [--policy TEXT] [--driver cuda]
//                 [--omit nothing|record-stream|stream-wait|host-wait]
//   --seconds  for each option string; without --config there are four, with --policy one
//   --streams  of each thread
//   --live     how much of the limit live blocks may need, in percent; 90 with --policy
//   --policy   as CACHALOT_POLICY has it. Blocks must then go from stream to stream and pages from
//              block to block, and each thread's last stream is destroyed and made anew now and then
//   --driver   custom: CUDA's functions, one by one; others tell about the program, not about the GPU
//   --omit     a planted fault, which must be found: record-stream is not called; no stream waits for
//              another, or the host for none, because the custom driver leaves the call out
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
#include "function_driver.h"
#include "mismatches.h"
#include "streams.h"

namespace {

using cachalot::Random;
using gpu::Allocator;

constexpr uint64_t kSmallest = 512;

enum class Omitted { kNothing, kRecordStream, kStreamWait, kHostWait };

struct Options {
  uint64_t seconds;
  uint64_t seed;
  uint64_t threads;
  uint64_t streams;
  uint64_t max_size;
  uint64_t limit;
  uint64_t live_percent;
  std::vector<std::string> configs;
  std::string policy;
  std::string driver;
  Omitted omitted;

  bool omits(Omitted what) const { return omitted == what; }
  // A short run may not come so far, and one with a planted fault shows something else.
  bool is_to_prove() const { return seconds >= 5 && omitted == Omitted::kNothing; }
  // The last stream of each thread is destroyed now and then; no other thread uses it.
  bool renews_streams() const {
    return !policy.empty() && streams > 1 && omitted == Omitted::kNothing;
  }
};

struct Block {
  cachalot_address address;
  uint64_t size;
  uint32_t number;
  cudaStream_t home;
  // Its stream has ended, and `home` is another one.
  bool is_adopted;
};

struct Tally {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t side_uses = 0;
  uint64_t handed_over = 0;
  uint64_t refused = 0;
  uint64_t streams_renewed = 0;

  void add(const Tally& other) {
    blocks += other.blocks;
    bytes += other.bytes;
    side_uses += other.side_uses;
    handed_over += other.handed_over;
    refused += other.refused;
    streams_renewed += other.streams_renewed;
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

cachalot_driver* make_driver(const Options& options) {
  if (options.driver != "custom") return gpu::open_driver(options.driver);
  if (options.omits(Omitted::kStreamWait)) {
    return gpu::make_function_driver(gpu::LeftOut::kStreamWait);
  }
  const bool omits = options.omits(Omitted::kHostWait);
  return gpu::make_function_driver(omits ? gpu::LeftOut::kHostWait : gpu::LeftOut::kNothing);
}

// What the threads of one run share.
class Run {
 public:
  Run(const Options& run_options, const std::string& config)
      : options(run_options),
        streams(options.threads * options.streams),
        allocator(make_driver(options), config, CACHALOT_RELEASE_DEFAULT, options.policy),
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
        // Together with what fragments, more than there is.
        share_(run.options.omits(Omitted::kRecordStream)
                   ? 0
                   : run.options.limit / 100 * run.options.live_percent / run.options.threads) {}

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
    Block block = {0, random_size(), 0, own_stream(), false};
    if (!obtain(block)) return;
    CHECK_CUDA(gpu::fill_pattern(block.address, block.size, block.number, block.home));
    tally_.blocks++;
    tally_.bytes += block.size;
    if (run_.options.omits(Omitted::kRecordStream) || random_.one_in(2)) use_elsewhere(block);
    live_.push_back(block);
    live_bytes_ += block.size;
    while (live_bytes_ > share_) retire();
    free_inbox();
    if (random_.one_in(2000)) run_.allocator.empty_cache();
    if (random_.one_in(200)) CHECK_CUDA(cudaStreamSynchronize(own_stream()));
    if (run_.options.renews_streams() && random_.one_in(200)) renew_stream();
  }

  uint64_t random_size() {
    return random_.of_any_magnitude(kSmallest, run_.options.max_size) / 4 * 4;
  }
  size_t first_stream() const { return index_ * run_.options.streams; }
  cudaStream_t own_stream() {
    return run_.streams[first_stream() + random_.below(run_.options.streams)];
  }
  // Also of another thread.
  cudaStream_t side_stream() {
    const uint64_t streams = run_.options.streams;
    const uint64_t lasting = run_.options.renews_streams() ? streams - 1 : streams;
    const uint64_t thread = random_.below(run_.options.threads);
    return run_.streams[thread * streams + random_.below(lasting)];
  }

  // The thread's last stream ends. Its live blocks are used on the first one from now on.
  void renew_stream() {
    const size_t last = first_stream() + run_.options.streams - 1;
    const cudaStream_t ending = run_.streams[last];
    run_.allocator.stream_ended(0, ending);
    for (Block& block : live_) {
      if (block.home != ending) continue;
      block.home = run_.streams[first_stream()];
      block.is_adopted = true;
    }
    run_.streams.renew(last);
    tally_.streams_renewed++;
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
    const cudaStream_t side = side_stream();
    filled_.order(block.home, side);
    // Late work is what a block must wait for.
    if (run_.options.omits(Omitted::kRecordStream) || random_.one_in(16)) hold(side);
    verify(block, side);
    if (!run_.options.omits(Omitted::kRecordStream)) {
      run_.allocator.record_stream(block.address, side);
    }
    tally_.side_uses++;
  }

  void retire() {
    Block& chosen = random_.pick(live_);
    const Block block = std::exchange(chosen, live_.back());
    live_.pop_back();
    live_bytes_ -= block.size;
    // Late work of its own stream is what other streams and pages must wait for.
    // Pages that move are those idle for longest, so the fault shows only where all work is late for long.
    if (run_.options.omits(Omitted::kHostWait)) {
      hold(block.home, kLongMicroseconds);
    } else if (!run_.options.policy.empty() && random_.one_in(16)) {
      hold(block.home);
    }
    verify(block, block.home);
    if (block.is_adopted) run_.allocator.record_stream(block.address, block.home);
    if (random_.one_in(4)) {
      random_.pick(run_.inboxes).put(block.address);
      tally_.handed_over++;
    } else {
      run_.allocator.free(block.address);
    }
  }

  static constexpr uint64_t kLongMicroseconds = 20000;

  void hold(cudaStream_t stream, uint64_t most_microseconds = 1000) {
    CHECK_CUDA(gpu::hold_stream(random_.between(100, most_microseconds), stream));
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

// What the policy is there for has happened.
void judge_policy(const Options& options, const Tally& tally, Run& run) {
  const cachalot_policy_stats stats = run.allocator.policy_stats(0);
  const auto peak = static_cast<double>(run.allocator.stats(0).allocated_bytes.all.peak);
  printf("  live at the peak: %.1f %% of the limit; streams destroyed and made anew: %llu\n",
         100 * peak / static_cast<double>(options.limit),
         static_cast<unsigned long long>(tally.streams_renewed));
  gpu::print_policy_stats(stats);
  if (!options.is_to_prove()) return;
  const bool lends = options.policy.find("borrow=never") == std::string::npos;
  gpu::require(stats.pages_moved > 0, "no page moved: lower --limit");
  gpu::require(!lends || stats.blocks_borrowed > 0, "no block was borrowed");
  gpu::require(!options.renews_streams() || tally.streams_renewed > 0, "no stream ended");
}

bool run_config(const Options& options, const std::string& config) {
  printf("options \"%s\", policy \"%s\"\n", config.c_str(), options.policy.c_str());
  fflush(stdout);
  Run run(options, config);
  const Tally tally = work_for(run);
  const uint64_t differing = run.mismatches.print();
  const cachalot_stats stats = run.allocator.stats(0);
  print_tally(options, tally, stats);
  printf("  words that differ: %llu\n", static_cast<unsigned long long>(differing));
  const uint64_t left = cachalot_memory_allocated(run.allocator.get(), 0);
  gpu::require(left == 0, std::to_string(left) + " bytes are still handed out at the end");
  if (!is_native(config)) return differing == 0;
  run.allocator.check();
  if (!options.policy.empty()) {
    judge_policy(options, tally, run);
  } else {
    // A run under no pressure proves little.
    gpu::require(options.seconds < 10 || !options.is_to_prove() || stats.num_device_free > 0,
                 "no cached memory was given back to serve a request: lower --limit");
  }
  return differing == 0;
}

Omitted read_omitted(const std::string& text) {
  if (text == "nothing") return Omitted::kNothing;
  if (text == "record-stream") return Omitted::kRecordStream;
  if (text == "stream-wait") return Omitted::kStreamWait;
  if (text == "host-wait") return Omitted::kHostWait;
  throw gpu::WrongCall("--omit: " + text);
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
  options.policy = flags.text("policy", "");
  options.live_percent = flags.number("live", options.policy.empty() ? 75 : 90);
  options.omitted = read_omitted(flags.text("omit", "nothing"));
  options.driver = flags.text("driver", "cuda");
  flags.reject_unknown();
  if (options.driver != "custom" &&
      (options.omits(Omitted::kStreamWait) || options.omits(Omitted::kHostWait))) {
    throw gpu::WrongCall("--omit: only the custom driver can leave a call out");
  }
  if (!options.threads || !options.streams)
    throw gpu::WrongCall("--threads, --streams: at least 1");
  if (options.max_size < kSmallest) throw gpu::WrongCall("--max-size: at least 512");
  if (options.configs.empty() && !options.policy.empty()) options.configs = {""};
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
