// SPDX-License-Identifier: MIT OR Apache-2.0
// nvcc with --default-stream per-thread: the launch of a kernel and the wrappers mean the same stream 0,
// without a macro of the program. Runs without a GPU: the kernel is compiled, and not launched.
#include <cuda_runtime.h>

#include "cachalot/cuda.h"
#include "host_allocator.h"

__global__ void fill(float* values, size_t count, float value) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) values[i] = value;
}

int main(int argc, char**) {
  cachalot_allocator* allocator = open_host_allocator();
  cachalot::cuda::Array<float> values;
  CHECK(cachalot::cuda::allocate(allocator, &values, 250, 0, nullptr, nullptr) == CACHALOT_OK);
  CHECK(stream_of_block(allocator, reinterpret_cast<uintptr_t>(values.get())) ==
        cachalot_cuda_stream(cudaStreamPerThread));
  if (argc > 1) fill<<<1, 256>>>(values.get(), 250, 1.0F);
  values.reset();
  CHECK(cachalot_allocator_destroy(allocator, nullptr) == CACHALOT_OK);
}
