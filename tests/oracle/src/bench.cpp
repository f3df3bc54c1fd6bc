// SPDX-License-Identifier: MIT OR Apache-2.0
// Compares allocators that follow PyTorch's pluggable-allocator contract, side by side in one
// process.
// Usage: bench LIBRARY:ALLOC:FREE [LIBRARY:ALLOC:FREE ...]      (name the reference first)
// Each figure is the median of rounds taken in turn (A B A B ...), in ns an alloc+free pair, or
// million pairs a second for threads; the ratio is reference over candidate (for threads, candidate
// over reference): above 1 the candidate is ahead. ROUNDS (7) sets the number of rounds, ROWS takes
// only the rows whose names contain it.
#include <dlfcn.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using Allocate = void* (*)(ssize_t, int, void*);
using Free = void (*)(void*, ssize_t, int, void*);
using Clock = std::chrono::steady_clock;

struct Block {
  void* address = nullptr;
  size_t size = 0;
};

class Plugin {
 public:
  Plugin(std::string name, Allocate allocate, Free free)
      : name_(std::move(name)), allocate_(allocate), free_(free) {}

  const std::string& name() const { return name_; }

  Block allocate(size_t size, void* stream) const {
    return {allocate_(static_cast<ssize_t>(size), 0, stream), size};
  }
  void free(const Block& block, void* stream) const {
    free_(block.address, static_cast<ssize_t>(block.size), 0, stream);
  }

 private:
  std::string name_;
  Allocate allocate_;
  Free free_;
};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint32_t operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }

 private:
  uint64_t state_;
};

// The stream of a thread.
void* stream_of(int thread) {
  return reinterpret_cast<void*>(uintptr_t{0x1000} * static_cast<unsigned>(thread + 1));
}

size_t small_size(Random& random) { return size_t{256} << (random() % 9); }

// As an inference server asks: many small, some activations, few large.
size_t server_size(Random& random) {
  const uint32_t percent = random() % 100;
  if (percent < 55) return small_size(random);
  if (percent < 90) return (size_t{1} << 16) * (1 + random() % 160);
  return (size_t{1} << 20) * (8 + random() % 56);
}

size_t size_to_100_kib(Random& random) { return 1 + random() % (100u << 10); }

double nanoseconds_each(Clock::time_point start, double count) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / count;
}

double millions_a_second(Clock::time_point start, double count) {
  return count / std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::vector<std::thread> start_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; i++) threads.emplace_back(work, i);
  return threads;
}

void join_all(std::vector<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
}

// Replaces one of `live` blocks at a time.
class Window {
 public:
  Window(const Plugin& plugin, void* stream, uint32_t live, uint64_t seed)
      : plugin_(plugin), stream_(stream), random_(seed), blocks_(live) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    for (const Block& block : blocks_) free(block);
  }

  void make(int pairs) {
    for (int i = 0; i < pairs; i++) {
      Block& block = blocks_[random_() % blocks_.size()];
      free(block);
      block = plugin_.allocate(server_size(random_), stream_);
    }
  }

 private:
  void free(const Block& block) const {
    if (block.address) plugin_.free(block, stream_);
  }

  const Plugin& plugin_;
  void* const stream_;
  Random random_;
  std::vector<Block> blocks_;
};

// A block at a time, of another size than other threads ask for.
class PingPong {
 public:
  PingPong(const Plugin& plugin, void* stream, uint32_t, uint64_t seed)
      : plugin_(plugin), stream_(stream), size_(size_t{512} * (1 + seed % 16)) {}

  void make(int pairs) {
    for (int i = 0; i < pairs; i++) plugin_.free(plugin_.allocate(size_, stream_), stream_);
  }

 private:
  const Plugin& plugin_;
  void* const stream_;
  const size_t size_;
};

void run_window(const Plugin& plugin, void* stream, uint32_t live, int pairs, uint64_t seed) {
  Window(plugin, stream, live, seed).make(pairs);
}

double pingpong(const Plugin& plugin, size_t size, int pairs) {
  const auto start = Clock::now();
  for (int i = 0; i < pairs; i++) plugin.free(plugin.allocate(size, nullptr), nullptr);
  return nanoseconds_each(start, pairs);
}

double window(const Plugin& plugin, uint32_t live, int pairs) {
  const auto start = Clock::now();
  run_window(plugin, nullptr, live, pairs, 7);
  return nanoseconds_each(start, pairs);
}

// As `window`, but with so many blocks that the processor's caches do not hold the bookkeeping; the
// clock starts when all of them are there and half of them have been replaced.
double many_live(const Plugin& plugin, uint32_t live, int pairs) {
  Random random(11);
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < live; i++)
    blocks.push_back(plugin.allocate(size_to_100_kib(random), nullptr));
  const auto replace = [&](int count) {
    for (int i = 0; i < count; i++) {
      Block& block = blocks[random() % live];
      plugin.free(block, nullptr);
      block = plugin.allocate(size_to_100_kib(random), nullptr);
    }
  };
  replace(static_cast<int>(live / 2));
  const auto start = Clock::now();
  replace(pairs);
  const double figure = nanoseconds_each(start, pairs);
  for (const Block& block : blocks) plugin.free(block, nullptr);
  return figure;
}

double threads(const Plugin& plugin, int count, int pairs) {
  const auto start = Clock::now();
  auto running = start_threads(count, [&](int i) {
    run_window(plugin, stream_of(i), 64, pairs, 100 + static_cast<uint64_t>(i));
  });
  join_all(running);
  return millions_a_second(start, double(pairs) * count);
}

// Threads that make pairs on the default stream for a while, all of them from its beginning to its end:
// one that is done early would leave the others a lock for themselves.
template <class Load>
double one_stream(const Plugin& plugin, int count) {
  constexpr std::chrono::milliseconds kTime{120};
  constexpr int kPairsBefore = 2000;
  constexpr int kPairsBetweenLooks = 20;
  std::atomic<int> ready{0};
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> made{0};
  auto running = start_threads(count, [&](int i) {
    Load load(plugin, nullptr, 64, 100 + static_cast<uint64_t>(i));
    load.make(kPairsBefore);
    ready++;
    while (ready < count) std::this_thread::yield();
    uint64_t own = 0;
    for (; !is_over.load(std::memory_order_relaxed); own += kPairsBetweenLooks)
      load.make(kPairsBetweenLooks);
    made += own;
  });
  while (ready < count) std::this_thread::yield();
  const auto start = Clock::now();
  std::this_thread::sleep_for(kTime);
  is_over = true;
  join_all(running);
  return millions_a_second(start, static_cast<double>(made));
}

// Every allocation a new high: nothing is freed while the clock runs.
double growth(const Plugin& plugin, int count, int pairs) {
  std::vector<std::vector<Block>> held(static_cast<size_t>(count));
  const auto start = Clock::now();
  auto running = start_threads(count, [&](int i) {
    Random random(static_cast<uint64_t>(i));
    auto& blocks = held[static_cast<size_t>(i)];
    blocks.reserve(static_cast<size_t>(pairs));
    for (int k = 0; k < pairs; k++) {
      blocks.push_back(plugin.allocate(small_size(random), stream_of(i)));
    }
  });
  join_all(running);
  const double rate = millions_a_second(start, double(pairs) * count);
  for (int i = 0; i < count; i++) {
    for (const Block& block : held[static_cast<size_t>(i)]) plugin.free(block, stream_of(i));
  }
  return rate;
}

// Hands blocks from one thread to another.
class Ring {
 public:
  void push(const Block& block) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    while (head - tail_.load(std::memory_order_acquire) == blocks_.size()) {
      std::this_thread::yield();
    }
    blocks_[head % blocks_.size()] = block;
    head_.store(head + 1, std::memory_order_release);
  }

  // Passes on all that is there, and returns how many that were.
  template <class Consumer>
  uint64_t drain(Consumer consume) {
    const uint64_t head = head_.load(std::memory_order_acquire);
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (uint64_t i = tail; i < head; i++) {
      consume(blocks_[i % blocks_.size()]);
      tail_.store(i + 1, std::memory_order_release);
    }
    return head - tail;
  }

 private:
  std::atomic<uint64_t> head_{0}, tail_{0};
  std::array<Block, 256> blocks_;
};

// Producers on streams of their own hand their blocks to one thread that frees them, as a garbage
// collector's finalizer does.
double finalizer(const Plugin& plugin, int count, int pairs) {
  std::vector<Ring> rings(static_cast<size_t>(count));
  const auto start = Clock::now();
  auto producers = start_threads(count, [&](int i) {
    Random random(static_cast<uint64_t>(i));
    for (int k = 0; k < pairs; k++) {
      rings[static_cast<size_t>(i)].push(plugin.allocate(server_size(random), stream_of(i)));
    }
  });
  for (uint64_t left = static_cast<uint64_t>(pairs) * static_cast<uint64_t>(count); left;) {
    uint64_t freed = 0;
    for (int i = 0; i < count; i++) {
      freed += rings[static_cast<size_t>(i)].drain(
          [&](const Block& block) { plugin.free(block, stream_of(i)); });
    }
    left -= freed;
    if (!freed) std::this_thread::yield();
  }
  join_all(producers);
  return millions_a_second(start, double(pairs) * count);
}

struct Load {
  std::string name;
  // In million pairs a second instead of ns a pair.
  bool is_rate;
  std::function<double(const Plugin&)> run;
};

std::vector<int> thread_counts() {
  std::vector<int> counts;
  const int limit = std::min(16, 2 * static_cast<int>(std::thread::hardware_concurrency()));
  for (int count = 1; count <= limit; count *= 2) counts.push_back(count);
  return counts;
}

// "tight": the load itself defines the peaks, so these rows come first; "plenty": an earlier peak
// was much higher.
std::vector<Load> make_loads() {
  std::vector<Load> loads;
  const auto add = [&](std::string name, bool is_rate, std::function<double(const Plugin&)> run) {
    loads.push_back({std::move(name), is_rate, std::move(run)});
  };
  const auto add_threads = [&](const char* suffix) {
    for (int count : thread_counts()) {
      add(std::to_string(count) + suffix, true,
          [count](const Plugin& plugin) { return threads(plugin, count, 60000); });
    }
  };
  add_threads(" threads, tight");
  add("pingpong 1 KiB", false, [](const Plugin& p) { return pingpong(p, 1024, 200000); });
  add("pingpong 64 MiB", false, [](const Plugin& p) { return pingpong(p, 64 << 20, 200000); });
  add("window 64", false, [](const Plugin& p) { return window(p, 64, 200000); });
  add("window 1024", false, [](const Plugin& p) { return window(p, 1024, 200000); });
  add("window 8192", false, [](const Plugin& p) { return window(p, 8192, 100000); });
  add("30,000 live", false, [](const Plugin& p) { return many_live(p, 30000, 200000); });
  add("300,000 live", false, [](const Plugin& p) { return many_live(p, 300000, 300000); });
  add_threads(" threads, plenty");
  for (const int count : {1, 2, 4, 8, 16}) {
    const std::string name = std::to_string(count) + " threads, one stream";
    add(name, true, [count](const Plugin& p) { return one_stream<Window>(p, count); });
    add(name + ", ping-pong", true,
        [count](const Plugin& p) { return one_stream<PingPong>(p, count); });
  }
  const int most = thread_counts().back();
  add(std::to_string(most) + " threads, growth", true,
      [most](const Plugin& plugin) { return growth(plugin, most, 20000); });
  add(std::to_string(most) + " + 1, finalizer", true,
      [most](const Plugin& plugin) { return finalizer(plugin, most, 20000); });
  return loads;
}

[[noreturn]] void fail(const char* message) {
  fprintf(stderr, "%s\n", message);
  exit(2);
}

// LIBRARY:ALLOC:FREE
Plugin open_plugin(const std::string& name) {
  const size_t last = name.rfind(':');
  const size_t first = last == std::string::npos || last == 0 ? last : name.rfind(':', last - 1);
  if (first == std::string::npos || first == 0) fail("usage: bench LIBRARY:ALLOC:FREE ...");
  const std::string path = name.substr(0, first);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(dlerror());
  void* allocate = dlsym(library, name.substr(first + 1, last - first - 1).c_str());
  void* free = dlsym(library, name.substr(last + 1).c_str());
  if (!allocate || !free) fail((name + ": symbols not found").c_str());
  return {path.substr(path.rfind('/') + 1), reinterpret_cast<Allocate>(allocate),
          reinterpret_cast<Free>(free)};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The median of each plugin. The first round only warms up.
std::vector<double> measure(const Load& load, const std::vector<Plugin>& plugins, int rounds) {
  std::vector<std::vector<double>> figures(plugins.size());
  for (int round = -1; round < rounds; round++) {
    for (size_t i = 0; i < plugins.size(); i++) {
      const double figure = load.run(plugins[i]);
      if (round >= 0) figures[i].push_back(figure);
    }
  }
  std::vector<double> medians;
  for (const auto& figure : figures) medians.push_back(median(figure));
  return medians;
}

void print_row(const Load& load, const std::vector<double>& medians) {
  printf("%-32s", load.name.c_str());
  for (double figure : medians) printf("%18.2f %s", figure, load.is_rate ? "Mpair/s" : "ns/pair");
  for (size_t i = 1; i < medians.size(); i++) {
    printf("  %6.2f", load.is_rate ? medians[i] / medians[0] : medians[0] / medians[i]);
  }
  printf("\n");
  fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const char* wanted = getenv("ROUNDS");
  const int rounds = std::max(1, wanted ? atoi(wanted) : 7);
  std::vector<Plugin> plugins;
  for (int i = 1; i < argc; i++) plugins.push_back(open_plugin(argv[i]));
  if (plugins.empty()) fail("usage: bench LIBRARY:ALLOC:FREE ...");
  printf("%-32s", "");
  for (const Plugin& plugin : plugins) printf("%26s", plugin.name().c_str());
  printf("   ratio\n");
  const char* rows = getenv("ROWS");
  for (const Load& load : make_loads()) {
    if (!rows || load.name.find(rows) != std::string::npos)
      print_row(load, measure(load, plugins, rounds));
  }
}
