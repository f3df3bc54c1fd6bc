// SPDX-License-Identifier: MIT OR Apache-2.0
// The tail of a hit's latency while another thread is busy in the allocator, for several allocators in
// turn (contender.h).
//
//   latency CSV LIBRARY:PREFIX...     CSV: where the distributions go
//
// Environment: LATENCY_SECONDS (each row; 2), LATENCY_THREADS (that hit; 4), LATENCY_BLOCKS (100000),
// LATENCY_ROWS (only rows whose names have this in them).
//
// Each hitting thread has a stream of its own, and blocks that stay, so that its memory is never all
// free and each of its allocations is a hit; its frees are not measured. In the rows `driver call`,
// `snapshot` and `trim` the other thread does that back to back, and only hits that begin while it is
// under way count; in `statistics` it reads them 1,000 times a second, and all hits count. What is
// printed includes the clock.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contender.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Contender {
  std::string name;
  contender_alloc alloc;
  contender_free free;
  contender_set_latency set_latency;
  contender_call snapshot;
  contender_call trim;
  contender_call read_stats;
};

template <typename Function>
Function symbol(void* library, const std::string& name) {
  void* const found = dlsym(library, name.c_str());
  if (!found) throw std::runtime_error("no symbol " + name);
  return reinterpret_cast<Function>(found);
}

Contender load(const std::string& argument) {
  const size_t colon = argument.rfind(':');
  if (colon == argument.npos) throw std::runtime_error(argument + " is not LIBRARY:PREFIX");
  const std::string prefix = argument.substr(colon + 1);
  void* const library = dlopen(argument.substr(0, colon).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  return {prefix,
          symbol<contender_alloc>(library, prefix + "_alloc"),
          symbol<contender_free>(library, prefix + "_free"),
          symbol<contender_set_latency>(library, prefix + "_set_latency"),
          symbol<contender_call>(library, prefix + "_snapshot"),
          symbol<contender_call>(library, prefix + "_trim"),
          symbol<contender_call>(library, prefix + "_read_stats")};
}

void* stream_of(int number) {
  return reinterpret_cast<void*>(uintptr_t{0x1000} * static_cast<unsigned>(number));
}

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

enum class Phase { kIdle, kUnderWay, kOver };

struct Row {
  const char* name;
  bool counts_always;  // else only what begins while `act` runs
  uint64_t latency_ns;
  std::function<void(Contender&)> prepare;  // not under way
  std::function<void(Contender&)> act;
};

long number_from(const char* variable, long otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atol(text) : otherwise;
}

// Sizes of a server's small tensors: all live ones together fit one segment.
std::vector<uint32_t> hit(Contender& contender, int thread, bool counts_always,
                          const std::atomic<Phase>& phase) {
  constexpr int kWindow = 16;
  constexpr size_t kMost = size_t{1} << 25;
  std::vector<uint32_t> latencies;
  latencies.reserve(kMost);
  Random random(static_cast<uint64_t>(thread));
  std::vector<std::pair<void*, ssize_t>> window(kWindow);
  while (phase.load(std::memory_order_acquire) != Phase::kOver) {
    auto& [address, size] = window[random() % kWindow];
    if (address) contender.free(address, size, 0, stream_of(thread));
    size = ssize_t{512} << random() % 6;
    const bool counts = counts_always || phase.load(std::memory_order_acquire) == Phase::kUnderWay;
    const auto begin = Clock::now();
    address = contender.alloc(size, 0, stream_of(thread));
    const auto end = Clock::now();
    if (counts && latencies.size() < kMost)
      latencies.push_back(static_cast<uint32_t>((end - begin).count()));
  }
  for (const auto& [address, size] : window)
    if (address) contender.free(address, size, 0, stream_of(thread));
  return latencies;
}

std::vector<uint32_t> run(Contender& contender, const Row& row, int threads, double seconds) {
  contender.set_latency(0);
  for (int i = 1; i <= threads; i++) contender.alloc(512, 0, stream_of(i));  // stays
  std::atomic<Phase> phase{row.counts_always ? Phase::kUnderWay : Phase::kIdle};
  std::vector<std::vector<uint32_t>> found(static_cast<size_t>(threads));
  std::vector<std::thread> hitters;
  for (int i = 1; i <= threads; i++) {
    hitters.emplace_back([&, i] {
      found[static_cast<size_t>(i - 1)] = hit(contender, i, row.counts_always, phase);
    });
  }
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    contender.set_latency(0);
    row.prepare(contender);
    contender.set_latency(row.latency_ns);
    phase = Phase::kUnderWay;
    row.act(contender);
    if (!row.counts_always) phase = Phase::kIdle;
  }
  contender.set_latency(0);
  phase = Phase::kOver;
  std::vector<uint32_t> all;
  for (size_t i = 0; i < hitters.size(); i++) {
    hitters[i].join();
    all.insert(all.end(), found[i].begin(), found[i].end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

uint32_t quantile(const std::vector<uint32_t>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(part * static_cast<double>(sorted.size())))];
}

void write_csv(std::ofstream& csv, const std::string& row, const std::string& contender,
               const std::vector<uint32_t>& sorted) {
  for (double above = 1; above * static_cast<double>(sorted.size()) >= 1; above /= 1.25)
    csv << '"' << row << "\"," << contender << ',' << above << ',' << quantile(sorted, 1 - above)
        << '\n';
  if (!sorted.empty()) csv << '"' << row << "\"," << contender << ",0," << sorted.back() << '\n';
}

void fill(Contender& contender, int blocks, int streams) {
  Random random(1);
  for (int i = 0; i < blocks; i++)
    contender.alloc(ssize_t{512} * (1 + random() % 8), 0,
                    stream_of(1 + static_cast<int>(random()) % streams));
}

// Every second block is freed first, so that the splits rise too.
void rise(Contender& contender, int threads) {
  constexpr int kBlocks = 4096;
  for (int thread = 1; thread <= threads; thread++) {
    for (const ssize_t size : {ssize_t{16} << 10, ssize_t{3} << 20}) {
      std::vector<void*> made(size < (1 << 20) ? kBlocks : kBlocks / 64);
      for (void*& address : made) address = contender.alloc(size, 0, stream_of(thread));
      for (size_t first : {0u, 1u}) {
        for (size_t i = first; i < made.size(); i += 2)
          contender.free(made[i], size, 0, stream_of(thread));
      }
    }
  }
}

int run_all(int argc, char** argv) {
  if (argc < 3) throw std::runtime_error("usage: latency CSV LIBRARY:PREFIX...");
  const double seconds = static_cast<double>(number_from("LATENCY_SECONDS", 2));
  const int threads = static_cast<int>(number_from("LATENCY_THREADS", 4));
  const int blocks = static_cast<int>(number_from("LATENCY_BLOCKS", 100000));
  std::vector<Contender> contenders;
  for (int i = 2; i < argc; i++) contenders.push_back(load(argv[i]));
  const auto nothing = [](Contender&) {};
  const int other = threads + 1;
  const auto sleep = [](Contender&) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  // As after a server's warm-up: all statistics have been higher once.
  const auto rise_once = [&, risen = std::vector<std::string>()](Contender& contender) mutable {
    if (std::find(risen.begin(), risen.end(), contender.name) != risen.end()) return;
    risen.push_back(contender.name);
    rise(contender, threads);
  };
  // So that the next request misses again, and nothing grows.
  constexpr ssize_t kLarge = ssize_t{10} << 20;
  void* miss = nullptr;
  const auto give_back = [&](Contender& contender) {
    if (miss) contender.free(std::exchange(miss, nullptr), kLarge, 0, stream_of(other));
    contender.trim();
  };
  const auto cache_large_blocks = [other](Contender& contender) {
    std::vector<void*> made(32);
    for (void*& address : made) address = contender.alloc(kLarge, 0, stream_of(other));
    for (void* address : made) contender.free(address, kLarge, 0, stream_of(other));
  };
  const Row rows[] = {
      {"nothing, at the peak", true, 0, nothing, sleep},
      {"nothing, below an earlier peak", true, 0, rise_once, sleep},
      {"driver call of 1 ms", false, 1'000'000, give_back,
       [&](Contender& c) { miss = c.alloc(kLarge, 0, stream_of(other)); }},
      {"trim, 100 us a segment", false, 100'000, cache_large_blocks,
       [](Contender& c) { c.trim(); }},
      {"statistics, 1000 a second", true, 0, nothing,
       [](Contender& c) {
         c.read_stats();
         std::this_thread::sleep_for(std::chrono::milliseconds(1));
       }},
      {"snapshot, blocks of other streams", false, 0,
       [&, filled = std::vector<std::string>()](Contender& c) mutable {
         if (std::find(filled.begin(), filled.end(), c.name) != filled.end()) return;
         filled.push_back(c.name);
         for (int i = 0; i < blocks; i++) c.alloc(ssize_t{512} * (1 + i % 8), 0, stream_of(other));
         rise(c, threads);
       },
       [](Contender& c) { c.snapshot(); }},
      {"snapshot, blocks of the same streams", false, 0,
       [&, filled = std::vector<std::string>()](Contender& c) mutable {
         if (std::find(filled.begin(), filled.end(), c.name) != filled.end()) return;
         filled.push_back(c.name);
         fill(c, blocks, threads);
         rise(c, threads);
       },
       [](Contender& c) { c.snapshot(); }},
  };
  std::ofstream csv(argv[1]);
  csv << "row,contender,above,ns\n";
  std::printf(
      "| while another thread does | allocator | p50 | p99 | p99.9 | max | hits |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  const char* const wanted = std::getenv("LATENCY_ROWS");
  for (const Row& row : rows) {
    if (wanted && !std::strstr(row.name, wanted)) continue;
    for (Contender& contender : contenders) {
      const std::vector<uint32_t> sorted = run(contender, row, threads, seconds);
      std::printf("| %s | %s | %u | %u | %u | %u | %zu |\n", row.name, contender.name.c_str(),
                  quantile(sorted, 0.5), quantile(sorted, 0.99), quantile(sorted, 0.999),
                  sorted.empty() ? 0 : sorted.back(), sorted.size());
      std::fflush(stdout);
      write_csv(csv, row.name, contender.name, sorted);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_all(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "latency: %s\n", error.what());
    return 2;
  }
}
