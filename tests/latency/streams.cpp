// SPDX-License-Identifier: MIT OR Apache-2.0
// What streams cost: one thread goes from stream to stream. One allocator and one number of streams a
// process, so that each begins with nothing.
//
//   streams LIBRARY:PREFIX STREAMS
//
// Prints one line: STREAMS, then nanoseconds of a stream's first use (an allocation that the driver
// serves, and its free), of a hit pair at the peak, of a hit pair below an earlier peak, of a window of
// 1,000 live blocks over all streams at the peak and below it (a pair), of a miss that the driver
// serves; microseconds of the statistics; bytes a stream of memory while all are idle, and when their
// memory has been given back.
//
//   streams LIBRARY:PREFIX changes COUNT
//
// COUNT changes between two streams, with a trim between them: nanoseconds each in the first and the
// last hundredth, and the bytes of memory that all changes added.
#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "contender.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr ssize_t kSize = 1000;
constexpr ssize_t kMissSize = 20 << 20;
constexpr int kRounds = 5;

[[noreturn]] void fail(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  std::exit(2);
}

template <typename Function>
Function symbol(void* library, const std::string& name) {
  void* const found = dlsym(library, name.c_str());
  if (!found) fail(("no symbol " + name).c_str());
  return reinterpret_cast<Function>(found);
}

class Contender {
 public:
  explicit Contender(const std::string& argument) {
    const size_t colon = argument.rfind(':');
    if (colon == argument.npos) fail("usage: streams LIBRARY:PREFIX STREAMS");
    void* const library = dlopen(argument.substr(0, colon).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    const std::string prefix = argument.substr(colon + 1);
    allocate_ = symbol<contender_alloc>(library, prefix + "_alloc");
    free_ = symbol<contender_free>(library, prefix + "_free");
    trim = symbol<contender_call>(library, prefix + "_trim");
    read_stats = symbol<contender_call>(library, prefix + "_read_stats");
  }
  void* allocate(ssize_t size, uint64_t stream) const { return allocate_(size, 0, handle(stream)); }
  void free(void* block, ssize_t size, uint64_t stream) const {
    free_(block, size, 0, handle(stream));
  }
  void pair(ssize_t size, uint64_t stream) const { free(allocate(size, stream), size, stream); }

  contender_call trim;
  contender_call read_stats;

 private:
  // As a runtime gives them: addresses in no order.
  static void* handle(uint64_t stream) {
    return reinterpret_cast<void*>(0x100000 + stream * 0x9E3779B1u % 0x100000000u * 64);
  }

  contender_alloc allocate_;
  contender_free free_;
};

double nanoseconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double median_of_rounds(const std::function<double()>& round) {
  std::vector<double> values;
  for (int i = 0; i < kRounds; i++) values.push_back(round());
  return median(values);
}

// Bytes of memory of this process.
double resident() {
  malloc_trim(0);
  FILE* const file = std::fopen("/proc/self/statm", "r");
  long pages = 0;
  if (!file || std::fscanf(file, "%*s %ld", &pages) != 1) fail("no /proc/self/statm");
  std::fclose(file);
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double first_use(const Contender& allocator, uint64_t streams) {
  return nanoseconds([&] {
           for (uint64_t s = 0; s < streams; s++) allocator.pair(kSize, s);
         }) /
         static_cast<double>(streams);
}

// Each stream in turn.
double hit_pair(const Contender& allocator, uint64_t streams) {
  const uint64_t turns = std::max<uint64_t>(200000 / streams, 2);
  return median_of_rounds([&] {
    return nanoseconds([&] {
             for (uint64_t turn = 0; turn < turns; turn++) {
               for (uint64_t s = 0; s < streams; s++) allocator.pair(kSize, s);
             }
           }) /
           static_cast<double>(turns * streams);
  });
}

// One of so many live blocks, each on the next stream, is replaced at a time.
double window(const Contender& allocator, uint64_t streams) {
  constexpr uint64_t kLive = 1000;
  constexpr uint64_t kPairs = 200000;
  std::vector<void*> blocks(kLive);
  std::vector<uint64_t> stream_of(kLive);
  uint64_t next = 0;
  const auto replace = [&](uint64_t at) {
    if (blocks[at]) allocator.free(blocks[at], kSize, stream_of[at]);
    stream_of[at] = next++ % streams;
    blocks[at] = allocator.allocate(kSize, stream_of[at]);
  };
  for (uint64_t at = 0; at < kLive; at++) replace(at);
  const double figure = median_of_rounds([&] {
    return nanoseconds([&] {
             for (uint64_t i = 0; i < kPairs; i++) replace(i * 7919 % kLive);
           }) /
           static_cast<double>(kPairs);
  });
  for (uint64_t at = 0; at < kLive; at++) allocator.free(blocks[at], kSize, stream_of[at]);
  return figure;
}

double miss(const Contender& allocator, uint64_t streams) {
  const uint64_t count = std::min<uint64_t>(std::max<uint64_t>(streams, 256), 8000);
  std::vector<void*> blocks(count);
  return median_of_rounds([&] {
    const double figure = nanoseconds([&] {
                            for (uint64_t i = 0; i < count; i++)
                              blocks[i] = allocator.allocate(kMissSize, i % streams);
                          }) /
                          static_cast<double>(count);
    for (uint64_t i = 0; i < count; i++) allocator.free(blocks[i], kMissSize, i % streams);
    allocator.trim();
    for (uint64_t s = 0; s < streams; s++)
      allocator.pair(kSize, s);  // none is new at the next miss
    return figure;
  });
}

void measure(const Contender& allocator, uint64_t streams) {
  allocator.pair(kSize, streams);  // what is made once
  const double before = resident();
  const double first = first_use(allocator, streams);
  const double bytes = (resident() - before) / static_cast<double>(streams);
  const double at_peak = hit_pair(allocator, streams);
  const double stats = median_of_rounds([&] {
    allocator.pair(kSize, 0);
    return nanoseconds([&] { allocator.read_stats(); });
  });
  const double window_at_peak = window(allocator, streams);
  std::vector<void*> many(5000);
  for (void*& block : many) block = allocator.allocate(kSize, 0);
  for (void* block : many) allocator.free(block, kSize, 0);
  const double below = hit_pair(allocator, streams);
  const double window_below = window(allocator, streams);
  const double missed = miss(allocator, streams);
  allocator.trim();
  const double left = (resident() - before) / static_cast<double>(streams);
  std::printf("%7llu %9.0f %9.0f %9.0f %9.0f %9.0f %9.0f %9.1f %9.0f %9.0f\n",
              static_cast<unsigned long long>(streams), first, at_peak, below, window_at_peak,
              window_below, missed, stats / 1000, bytes, left);
}

void measure_changes(const Contender& allocator, uint64_t count) {
  const uint64_t part = std::max<uint64_t>(count / 100, 1);
  uint64_t changes = 0;
  const auto change = [&](uint64_t times) {
    return nanoseconds([&] {
             for (uint64_t i = 0; i < times; i++) {
               allocator.pair(kSize, changes++ % 2);
               allocator.trim();
             }
           }) /
           static_cast<double>(times);
  };
  change(1000);
  const double before = resident();
  const double first = change(part);
  for (uint64_t i = 2; i < 100; i++) change(part);
  const double last = change(part);
  std::printf("%llu changes: %.0f ns each at first, %.0f at the end, %.0f bytes more\n",
              static_cast<unsigned long long>(changes), first, last, resident() - before);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    fail("usage: streams LIBRARY:PREFIX STREAMS | streams LIBRARY:PREFIX changes COUNT");
  const Contender allocator(argv[1]);
  if (std::strcmp(argv[2], "changes") == 0 && argc == 4) {
    measure_changes(allocator, std::strtoull(argv[3], nullptr, 10));
  } else {
    measure(allocator, std::strtoull(argv[2], nullptr, 10));
  }
}
