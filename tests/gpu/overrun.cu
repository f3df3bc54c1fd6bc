// SPDX-License-Identifier: MIT OR Apache-2.0
// A kernel that writes one element beyond a block's end, for compute-sanitizer to find or to miss;
// sanitizer.sh runs it. The exit code is 0 as long as every other call works.
//
// Usage: overrun [--memory cachalot|driver]
//   driver  plain cudaMalloc instead of the library: tells whether the tool works at all
#include "allocator.h"
#include "flags.h"

namespace {

// A multiple of 512, so that not even rounding separates the block from its neighbour.
constexpr uint64_t kElements = 1024;

__global__ void write_elements(float* elements, uint64_t count) {
  const uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x;
  if (i <= count) elements[i] = 1.0f;  // the planted fault: < would be right
}

void overrun(uint64_t address) {
  write_elements<<<kElements / 256 + 1, 256>>>(reinterpret_cast<float*>(address), kElements);
  CHECK_CUDA(cudaGetLastError());
  // The sanitizer may end the kernel that it caught, so its result says nothing.
  cudaDeviceSynchronize();
}

void overrun_driver_memory() {
  void* memory = nullptr;
  CHECK_CUDA(cudaMalloc(&memory, kElements * sizeof(float)));
  overrun(reinterpret_cast<uint64_t>(memory));
}

void overrun_block() {
  gpu::Allocator allocator("");
  overrun(allocator.allocate(kElements * sizeof(float), 0, nullptr));
}

bool run(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  const std::string memory = flags.text("memory", "cachalot");
  flags.reject_unknown();
  if (memory != "cachalot" && memory != "driver") throw gpu::WrongCall("--memory: " + memory);
  gpu::require_gpus(1);
  CHECK_CUDA(cudaFree(nullptr));  // the sanitizer wants a context before the first NVTX call
  memory == "driver" ? overrun_driver_memory() : overrun_block();
  printf("wrote %llu elements into %s memory for %llu\n",
         static_cast<unsigned long long>(kElements + 1), memory.c_str(),
         static_cast<unsigned long long>(kElements));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  return gpu::run_program([&] { return run(argc, argv); });
}
