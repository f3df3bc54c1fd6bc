/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* C99 with the header of CUDA's runtime: the wrappers take cudaStream_t and void*. */
#include <cuda_runtime_api.h>

#include "cachalot/cuda.h"
#include "host_allocator.h"

int main(void) {
  cachalot_allocator* allocator = open_host_allocator();
  const cudaStream_t none = NULL;
  void* pointer = NULL;
  float* values = NULL;

  CHECK(cachalot_cuda_stream(none) == 0);
  CHECK(cachalot_cuda_stream(cudaStreamLegacy) == 0);
  CHECK(cachalot_cuda_stream(cudaStreamPerThread) == 2);

  CHECK(cachalot_cuda_allocate(allocator, &pointer, 1000, 0, none, NULL) == CACHALOT_OK);
  CHECK(stream_of_block(allocator, (uintptr_t)pointer) == 0);
  values = pointer;
  values[249] = 1.0f;
  CHECK(cachalot_cuda_record_stream(allocator, values, cudaStreamPerThread, NULL) == CACHALOT_OK);
  CHECK(cachalot_cuda_free_async(allocator, values, none, NULL) == CACHALOT_OK);
  CHECK(cachalot_allocator_destroy(allocator, NULL) == CACHALOT_OK);
  return 0;
}
