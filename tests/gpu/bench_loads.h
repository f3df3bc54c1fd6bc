// SPDX-License-Identifier: MIT OR Apache-2.0
// What the benchmark asks of an allocator, pair by pair of allocation and free, on one stream.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "contender.h"

namespace gpu {

// A linear congruential generator: cheap beside the 20 ns of a fast allocator.
class FastRandom {
 public:
  explicit FastRandom(uint64_t seed) : state_(seed) {}

  uint32_t operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }

 private:
  uint64_t state_;
};

// As an inference server asks: many small, some activations, few large.
inline size_t server_size(FastRandom& random) {
  const uint32_t percent = random() % 100;
  if (percent < 55) return size_t{256} << (random() % 9);
  if (percent < 90) return (size_t{1} << 16) * (1 + random() % 160);
  return (size_t{1} << 20) * (8 + random() % 56);
}

// Replaces one of 64 live blocks at a time.
class Window {
 public:
  static constexpr const char* kName = "mix of sizes, 64 live";

  Window(Contender& contender, cudaStream_t stream, uint64_t seed)
      : contender_(contender), stream_(stream), random_(seed) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    for (void* block : blocks_) {
      if (block) contender_.free(block, stream_);
    }
  }

  // To be called once, before the first pair.
  void fill() {
    for (void*& block : blocks_) block = allocate();
  }
  void pair() {
    void*& block = choose();
    free(block);
    block = allocate();
  }

  void*& choose() { return blocks_[random_() % blocks_.size()]; }
  size_t size() { return server_size(random_); }
  void* allocate() { return contender_.allocate(size(), stream_); }
  // A failed allocation after it leaves nothing to be freed twice.
  void free(void*& block) { contender_.free(std::exchange(block, nullptr), stream_); }

 private:
  Contender& contender_;
  cudaStream_t stream_;
  FastRandom random_;
  std::array<void*, 64> blocks_ = {};
};

// The same small block again and again.
class PingPong {
 public:
  static constexpr const char* kName = "ping-pong, 1 KiB";

  PingPong(Contender& contender, cudaStream_t stream, uint64_t)
      : contender_(contender), stream_(stream) {}

  void fill() {}
  void pair() { contender_.free(contender_.allocate(1024, stream_), stream_); }

 private:
  Contender& contender_;
  cudaStream_t stream_;
};

}  // namespace gpu
