// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that has the CUDA runtime within it and knows nothing of cachalot, for any_program.py: four threads copy
// through blocks that they ask for and free each time. Prints its time and a sum of what comes back.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

namespace {

constexpr unsigned kThreads = 4;
constexpr unsigned kRounds = 600;

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

uint64_t copy_through_blocks(unsigned thread) {
  std::vector<uint32_t> host(size_t{2} << 20);
  std::vector<uint32_t> back(host.size());
  uint64_t sum = 0;
  for (unsigned i = 0; i < kRounds; i++) {
    const size_t count = (size_t{1} << (8 + (i * 5 + thread) % 13)) + i;
    std::iota(host.begin(), host.begin() + static_cast<std::ptrdiff_t>(count),
              i * kThreads + thread);
    void* blocks[2] = {};
    for (void*& block : blocks) require(cudaMalloc(&block, count * sizeof host[0]));
    const size_t bytes = count * sizeof host[0];
    require(cudaMemcpy(blocks[0], host.data(), bytes, cudaMemcpyHostToDevice));
    require(cudaMemcpy(blocks[1], blocks[0], bytes, cudaMemcpyDeviceToDevice));
    require(cudaMemcpy(back.data(), blocks[1], bytes, cudaMemcpyDeviceToHost));
    for (void* const block : blocks) require(cudaFree(block));
    sum = std::accumulate(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(count), sum);
  }
  return sum;
}

}  // namespace

int main() {
  require(cudaFree(nullptr));  // starts the runtime
  const auto begin = std::chrono::steady_clock::now();
  std::vector<uint64_t> sums(kThreads);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; i++)
    threads.emplace_back([&sums, i] { sums[i] = copy_through_blocks(i); });
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::printf(
      "time %.6f result %llu\n", time.count(),
      static_cast<unsigned long long>(std::accumulate(sums.begin(), sums.end(), uint64_t{0})));
}
