// SPDX-License-Identifier: MIT OR Apache-2.0
// What branches cost that the processor predicts wrongly: the same window of live blocks with requests that
// repeat after a few, which it learns, and with requests that do not. The sizes and the instructions a pair
// are alike in all rows.
//
//   patterns LIBRARY:PREFIX [PAIRS]
//
// A row a period, a column a number of live blocks; nanoseconds a pair of allocation and free, the least of
// 7 rounds of PAIRS (300,000).
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "contender.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 7;
constexpr size_t kLives[] = {64, 1024};
constexpr size_t kNoPeriod = size_t{1} << 20;

struct Request {
  size_t slot;
  ssize_t size;
};

struct Block {
  void* address = nullptr;
  ssize_t size = 0;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(2);
}

class Contender {
 public:
  explicit Contender(const std::string& argument) {
    const size_t colon = argument.rfind(':');
    if (colon == std::string::npos) fail("usage: patterns LIBRARY:PREFIX [PAIRS]");
    void* const library = dlopen(argument.substr(0, colon).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    const std::string prefix = argument.substr(colon + 1);
    allocate_ = reinterpret_cast<contender_alloc>(dlsym(library, (prefix + "_alloc").c_str()));
    free_ = reinterpret_cast<contender_free>(dlsym(library, (prefix + "_free").c_str()));
    if (!allocate_ || !free_) fail("no functions " + prefix + "_alloc and " + prefix + "_free");
  }

  void replace(Block& block, ssize_t size) const {
    free(block);
    block = {allocate_(size, 0, nullptr), size};
  }
  void free(const Block& block) const {
    if (block.address) free_(block.address, block.size, 0, nullptr);
  }

 private:
  contender_alloc allocate_;
  contender_free free_;
};

// Sizes of 512 bytes to 32 MiB, each doubling as often as the next.
std::vector<Request> requests(size_t period, size_t live) {
  std::mt19937_64 random(7);
  std::vector<Request> made(period);
  for (Request& request : made) {
    const double doublings = static_cast<double>(random() % 1'000'000) / 1e6 * 16;
    request = {random() % live, static_cast<ssize_t>(512 * std::exp2(doublings))};
  }
  return made;
}

double nanoseconds_a_pair(const Contender& contender, size_t period, size_t live, size_t pairs) {
  const std::vector<Request> wanted = requests(period, live);
  std::vector<Block> blocks(live);
  const auto round = [&] {
    const auto start = Clock::now();
    for (size_t i = 0; i < pairs; i++) {
      const Request& request = wanted[i % period];
      contender.replace(blocks[request.slot], request.size);
    }
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
           static_cast<double>(pairs);
  };
  round();
  double least = round();
  for (int i = 1; i < kRounds; i++) least = std::min(least, round());
  for (const Block& block : blocks) contender.free(block);
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) fail("usage: patterns LIBRARY:PREFIX [PAIRS]");
  const Contender contender(argv[1]);
  const size_t pairs = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 300'000;
  if (pairs == 0) fail("PAIRS: a number above 0");
  std::printf("%12s %10zu %10zu\n", "live", kLives[0], kLives[1]);
  for (const size_t period : {size_t{16}, size_t{64}, size_t{256}, size_t{1024}, kNoPeriod}) {
    const std::string name = period == kNoPeriod ? "no period" : "period " + std::to_string(period);
    std::printf("%12s", name.c_str());
    for (const size_t live : kLives)
      std::printf(" %10.1f", nanoseconds_a_pair(contender, period, live, pairs));
    std::printf("\n");
  }
  return 0;
}
