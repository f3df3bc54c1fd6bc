// SPDX-License-Identifier: MIT OR Apache-2.0
// C++17 with both headers of CUDA, compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM: the stream 0 is
// the thread's own.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <type_traits>

#include "cachalot/cuda.h"
#include "host_allocator.h"

static_assert(std::is_same_v<cudaStream_t, CUstream>);

int main() {
  cachalot_allocator* allocator = open_host_allocator();
  const cachalot_stream per_thread = cachalot_cuda_stream(cudaStreamPerThread);
  const cudaStream_t none = nullptr;

  CHECK(cachalot_cuda_stream(none) == per_thread);
  CHECK(cachalot_cuda_stream(cudaStreamLegacy) == 0);

  float* values = nullptr;
  CHECK(cachalot_cuda_allocate(allocator, &values, 1000, 0, none, nullptr) == CACHALOT_OK);
  CHECK(stream_of_block(allocator, reinterpret_cast<uintptr_t>(values)) == per_thread);
  CHECK(cachalot_cuda_free_async(allocator, values, none, nullptr) == CACHALOT_OK);

  cachalot::cuda::Array<float> array;
  CHECK(cachalot::cuda::allocate(allocator, &array, 250, 0, none, nullptr) == CACHALOT_OK);
  CHECK(stream_of_block(allocator, reinterpret_cast<uintptr_t>(array.get())) == per_thread);
  array.reset();
  CHECK(cachalot_allocator_destroy(allocator, nullptr) == CACHALOT_OK);
}
