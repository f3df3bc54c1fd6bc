// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>

#include "pattern_kernels.h"

namespace gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr uint64_t kMostBlocks = 1024;

__device__ uint32_t pattern(uint32_t block, uint64_t word) {
  if (word % 2 == 0) return block;
  uint32_t mixed = block * 0x9E3779B1u ^ static_cast<uint32_t>(word) * 0x85EBCA6Bu;
  mixed ^= mixed >> 15;
  return mixed * 0xC2B2AE35u ^ static_cast<uint32_t>(word >> 32);
}

__device__ uint64_t first_word() { return blockIdx.x * uint64_t{kThreads} + threadIdx.x; }
__device__ uint64_t stride() { return gridDim.x * uint64_t{kThreads}; }

__global__ void fill(uint32_t* words, uint64_t count, uint32_t block) {
  for (uint64_t i = first_word(); i < count; i += stride()) words[i] = pattern(block, i);
}

__device__ void add_row(MismatchReport* report, const Mismatch& mismatch) {
  const uint32_t row = atomicAdd(&report->rows, 1u);
  if (row < kMismatchRows) report->first[row] = mismatch;
}

// Each thread reports its first mismatch only; all are counted.
__global__ void verify(const uint32_t* words, uint64_t count, uint32_t block,
                       MismatchReport* report) {
  __shared__ unsigned long long mismatches;
  if (threadIdx.x == 0) mismatches = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (uint64_t i = first_word(); i < count; i += stride()) {
    const uint32_t expected = pattern(block, i);
    const uint32_t found = words[i];
    if (found == expected) continue;
    if (mine++ == 0) add_row(report, {i, block, expected, found, 0});
  }
  if (mine) atomicAdd(&mismatches, mine);
  __syncthreads();
  if (threadIdx.x == 0 && mismatches) atomicAdd(&report->words, mismatches);
}

__global__ void add_up(const uint4* quads, uint64_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (uint64_t i = first_word(); i < count; i += stride()) {
    const uint4 quad = quads[i];
    mine += quad.x ^ quad.y ^ quad.z ^ quad.w;
  }
  // Rarely true, which the compiler cannot know.
  if (mine == ~0ull) atomicAdd(sum, mine);
}

__device__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void hold(uint64_t duration) {
  const uint64_t begin = nanoseconds();
  while (nanoseconds() - begin < duration) {
  }
}

unsigned blocks_for(uint64_t words) {
  return static_cast<unsigned>(
      std::clamp((words + kThreads - 1) / kThreads, uint64_t{1}, kMostBlocks));
}

}  // namespace

cudaError_t fill_pattern(uint64_t address, uint64_t bytes, uint32_t block, cudaStream_t stream) {
  fill<<<blocks_for(bytes / 4), kThreads, 0, stream>>>(reinterpret_cast<uint32_t*>(address),
                                                       bytes / 4, block);
  return cudaGetLastError();
}

cudaError_t verify_pattern(uint64_t address, uint64_t bytes, uint32_t block, MismatchReport* report,
                           cudaStream_t stream) {
  verify<<<blocks_for(bytes / 4), kThreads, 0, stream>>>(reinterpret_cast<const uint32_t*>(address),
                                                         bytes / 4, block, report);
  return cudaGetLastError();
}

cudaError_t read_all(uint64_t address, uint64_t bytes, uint64_t* sum, cudaStream_t stream) {
  add_up<<<blocks_for(bytes / 16), kThreads, 0, stream>>>(
      reinterpret_cast<const uint4*>(address), bytes / 16,
      reinterpret_cast<unsigned long long*>(sum));
  return cudaGetLastError();
}

cudaError_t hold_stream(uint64_t microseconds, cudaStream_t stream) {
  hold<<<1, 1, 0, stream>>>(microseconds * 1000);
  return cudaGetLastError();
}

}  // namespace gpu
