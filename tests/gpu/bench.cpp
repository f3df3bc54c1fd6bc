// SPDX-License-Identifier: MIT OR Apache-2.0
// Allocators side by side on the GPU, in one process: PyTorch's own, cudaMallocAsync, CUB's, plain
// cudaMalloc and the library.
//
// Usage: bench [--torch LIBRARY] [--out FOLDER] [--milliseconds 80] [--repetitions 5]
//              [--require 5] [--miss-percent 103] [--threads N]... [--driver cuda]
//   --torch    the plugin made of torch_plugin.cpp; without it PyTorch is left out
//   --out      where bench.csv and bench.md go (.)
//   --require  fails if the library is not so many times as fast as PyTorch in each row of hits
//   --miss-percent  fails if a miss of the library takes more of PyTorch's, with the same options
//   --driver   of the library: another one tells about the program, not about the GPU
//   --threads  1, 2, 4, 8 and 16 if not given
// Exit code: 0 measured, 1 a measurement failed or the required ratio is missed, 77 no GPU.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "bench_loads.h"
#include "bench_report.h"
#include "flags.h"
#include "measure.h"
#include "streams.h"

namespace {

using gpu::Contender;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kWarmUp{20};
constexpr const char* kMiss = "allocation, miss (32 to 62 MiB)";
constexpr const char* kBareMemory = "cuMemAlloc";
constexpr const char* kBarePages = "cuMemAddressReserve, pages";
constexpr const char* kTorch = "PyTorch native";
constexpr const char* kTorchExpandable = "PyTorch native, expandable";
constexpr const char* kOurs = "cachalot";
constexpr const char* kOursExpandable = "cachalot, expandable";

struct Options {
  std::string torch;
  std::string out;
  std::string driver;
  milliseconds duration;
  uint64_t repetitions;
  uint64_t required;
  uint64_t miss_percent;
  std::vector<size_t> threads;
};

// The loop and its random numbers without an allocator.
class Nothing final : public Contender {
 public:
  Nothing() : Contender("(clock and loop)") {}
  void* allocate(size_t size, cudaStream_t) override { return reinterpret_cast<void*>(size); }
  void free(void*, cudaStream_t) override {}
  void empty() override {}
};

enum Phase : int { kWarming, kMeasuring, kDone };

// Threads that run one load each, on streams of their own.
template <class Load>
class Crew {
 public:
  Crew(Contender& contender, const gpu::Streams& streams, size_t count)
      : contender_(contender), streams_(streams), results_(count), start_(ptrdiff_t(count) + 1) {}

  // Million pairs a second of all threads together.
  double measure(milliseconds duration) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < results_.size(); i++) threads.emplace_back([this, i] { guard(i); });
    start_.arrive_and_wait();
    std::this_thread::sleep_for(kWarmUp);
    phase_ = kMeasuring;
    std::this_thread::sleep_for(duration);
    phase_ = kDone;
    for (std::thread& thread : threads) thread.join();
    gpu::require(failure_.empty(), failure_);
    double rate = 0;
    for (const double result : results_) rate += result;
    return rate;
  }

 private:
  void guard(size_t index) {
    bool started = false;
    try {
      run(index, started);
    } catch (const std::exception& failure) {
      if (!started) start_.arrive_and_drop();
      const std::lock_guard lock(mutex_);
      failure_ = failure.what();
    }
  }

  void run(size_t index, bool& started) {
    Load load(contender_, streams_[index], 100 + index);
    load.fill();
    started = true;
    start_.arrive_and_wait();
    while (phase_.load(std::memory_order_relaxed) == kWarming) load.pair();
    uint64_t pairs = 0;
    const auto begin = Clock::now();
    while (phase_.load(std::memory_order_relaxed) == kMeasuring) {
      load.pair();
      pairs++;
    }
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
    results_[index] = static_cast<double>(pairs) / elapsed.count();
  }

  Contender& contender_;
  const gpu::Streams& streams_;
  std::vector<double> results_;
  std::barrier<> start_;
  std::atomic<int> phase_{kWarming};
  std::mutex mutex_;
  std::string failure_;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        streams_(*std::max_element(options.threads.begin(), options.threads.end())) {}

  using Make = std::function<std::unique_ptr<Contender>()>;

  // One that cannot be made is reported and left out.
  void add(const char* name, const Make& make) { add_to(contenders_, name, make); }
  // In turns with the others, for what is not a miss of theirs.
  void add_for_misses(const char* name, const Make& make) { add_to(for_misses_, name, make); }

  const gpu::BenchReport& run() {
    for (const auto& contender : contenders_) report_.add_contender(contender->name());
    for (const auto& contender : contenders_) {
      if (contender->has_cache()) attempt(*contender, [&] { measure_hits(*contender); });
      attempt(*contender, [&] { contender->empty(); });
    }
    measure_misses();
    measure_rates<gpu::Window>();
    measure_rates<gpu::PingPong>();
    return report_;
  }

 private:
  using Contenders = std::vector<std::unique_ptr<Contender>>;

  void add_to(Contenders& contenders, const char* name, const Make& make) {
    try {
      contenders.push_back(make());
    } catch (const gpu::Failure& failure) {
      report_.add_failure(name, failure.what());
    }
  }

  // Takes turns, so that a machine that changes its speed changes it for all.
  template <class Load>
  void measure_rates() {
    for (const size_t count : options_.threads) {
      std::vector<std::vector<double>> rates(contenders_.size());
      for (uint64_t round = 0; round < options_.repetitions; round++) {
        for (size_t i = 0; i < contenders_.size(); i++) {
          attempt(*contenders_[i], [&] {
            contenders_[i]->begin_turn();
            Crew<Load> crew(*contenders_[i], streams_, count);
            rates[i].push_back(crew.measure(options_.duration));
          });
        }
      }
      for (size_t i = 0; i < contenders_.size(); i++) {
        if (rates[i].empty()) continue;
        report_.add_rate(Load::kName, count, contenders_[i]->name(), gpu::median(rates[i]));
      }
    }
    for (const auto& contender : contenders_) attempt(*contender, [&] { contender->empty(); });
  }

  void measure_hits(Contender& contender) {
    constexpr int kWarmUpPairs = 20000;
    constexpr size_t kSamples = 50000;
    gpu::Window window(contender, streams_[0], 1);
    window.fill();
    for (int i = 0; i < kWarmUpPairs; i++) window.pair();
    std::vector<double> frees;
    std::vector<double> allocations;
    const auto end = Clock::now() + std::chrono::seconds(1);
    while (allocations.size() < kSamples && Clock::now() < end) {
      void*& block = window.choose();
      const size_t size = window.size();
      const auto before = Clock::now();
      window.free(block);
      const auto between = Clock::now();
      block = contender.allocate(size, streams_[0]);
      const auto after = Clock::now();
      frees.push_back(nanoseconds(before, between));
      allocations.push_back(nanoseconds(between, after));
    }
    report_.add_latency("allocation, hit", contender.name(), allocations);
    report_.add_latency("free", contender.name(), frees);
  }

  // One miss of each in turn, in an order that changes: the driver's state after one is what the next
  // one finds.
  void measure_misses() {
    constexpr size_t kSamples = 600;
    std::vector<Contender*> order;
    for (const auto& contender : for_misses_) order.push_back(contender.get());
    for (const auto& contender : contenders_) order.push_back(contender.get());
    const std::vector<Contender*> all = order;
    std::map<const Contender*, std::vector<double>> figures;
    std::minstd_rand random;
    for (size_t i = 0; i < kSamples; i++) {
      const size_t size = (size_t{32} << 20) + (size_t{2} << 20) * (i % 16);
      std::shuffle(order.begin(), order.end(), random);
      for (Contender* const contender : order)
        attempt(*contender, [&] { figures[contender].push_back(miss(*contender, size)); });
    }
    for (Contender* const contender : all)
      report_.add_latency(kMiss, contender->name(), figures[contender]);
  }

  // Nothing is cached when the allocation comes, so it goes to the driver.
  double miss(Contender& contender, size_t size) {
    contender.begin_turn();
    const auto before = Clock::now();
    void* const block = contender.allocate(size, streams_[0]);
    const auto after = Clock::now();
    contender.free(block, streams_[0]);
    contender.empty();
    return nanoseconds(before, after);
  }

  static double nanoseconds(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double, std::nano>(end - begin).count();
  }

  void attempt(const Contender& contender, const std::function<void()>& measurement) {
    try {
      measurement();
    } catch (const gpu::Failure& failure) {
      report_.add_failure(contender.name(), failure.what());
    }
  }

  const Options& options_;
  gpu::Streams streams_;
  Contenders contenders_;
  Contenders for_misses_;
  gpu::BenchReport report_;
};

Options read_options(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  Options options;
  options.torch = flags.text("torch", "");
  options.out = flags.text("out", ".");
  options.driver = flags.text("driver", "cuda");
  options.duration = milliseconds(flags.number("milliseconds", 80));
  options.repetitions = flags.number("repetitions", 5);
  options.required = flags.number("require", 0);
  options.miss_percent = flags.number("miss-percent", 0);
  for (const uint64_t count : flags.numbers("threads")) options.threads.push_back(count);
  flags.reject_unknown();
  if (options.threads.empty()) options.threads = {1, 2, 4, 8, 16};
  const auto [least, most] = std::minmax_element(options.threads.begin(), options.threads.end());
  if (*least < 1 || *most > 256) throw gpu::WrongCall("--threads: 1 to 256");
  if (!options.repetitions) throw gpu::WrongCall("--repetitions: at least 1");
  return options;
}

bool run(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  gpu::require_gpus(1);
  CHECK_CUDA(cudaFree(nullptr));  // a context, before anything is timed
  Bench bench(options);
  bench.add_for_misses(kBareMemory, gpu::make_driver_memory);
  bench.add_for_misses(kBarePages, gpu::make_driver_pages);
  if (options.torch.empty()) {
    printf("PyTorch is left out: --torch is not given\n");
  } else {
    const auto make_torch = [&](const char* name, const char* config) {
      return [&options, name, config] { return gpu::make_torch(name, config, options.torch); };
    };
    bench.add(kTorch, make_torch(kTorch, "expandable_segments:False"));
    bench.add_for_misses(kTorchExpandable,
                         make_torch(kTorchExpandable, "expandable_segments:True"));
  }
  bench.add("cudaMallocAsync", gpu::make_stream_ordered);
  bench.add("CUB", gpu::make_cub);
  bench.add("cudaMalloc", gpu::make_plain);
  const auto add_cachalot = [&](const char* name, const char* config) {
    bench.add(name, [&, config, name] { return gpu::make_cachalot(name, config, options.driver); });
  };
  add_cachalot(kOurs, "");
  add_cachalot(kOursExpandable, "expandable_segments:True");
  bench.add("(clock and loop)", [] { return std::make_unique<Nothing>(); });
  const gpu::BenchReport& report = bench.run();
  report.write(options.out);
  const auto percent = static_cast<double>(options.miss_percent);
  const bool is_fast = report.judge(kOurs, kTorch, static_cast<double>(options.required));
  const bool misses = report.judge_latency(kMiss, kOurs, kTorch, percent);
  return report.judge_latency(kMiss, kOursExpandable, kTorchExpandable, percent) && misses &&
         is_fast;
}

}  // namespace

int main(int argc, char** argv) {
  return gpu::run_program([&] { return run(argc, argv); });
}
