// SPDX-License-Identifier: MIT OR Apache-2.0
// C++11 with the header of CUDA's driver, included last: the wrappers take CUstream and CUdeviceptr.
#include <cuda.h>

#include <type_traits>

#include "cachalot/cuda.h"
#include "host_allocator.h"

static_assert(std::is_same<CUstream, CUstream_st*>::value, "as the wrappers declare it");
static_assert(std::is_same<CUdeviceptr, unsigned long long>::value, "as the wrappers declare it");

int main() {
  cachalot_allocator* allocator = open_host_allocator();
  const CUstream none = nullptr;
  CUdeviceptr pointer = 0;

  CHECK(cachalot_cuda_stream(none) == 0);
  CHECK(cachalot_cuda_stream(CU_STREAM_LEGACY) == 0);
  CHECK(cachalot_cuda_stream(CU_STREAM_PER_THREAD) == 2);

  CHECK(cachalot_cu_allocate(allocator, &pointer, 1000, 0, none, nullptr) == CACHALOT_OK);
  CHECK(stream_of_block(allocator, pointer) == 0);
  CHECK(cachalot_cu_record_stream(allocator, pointer, CU_STREAM_PER_THREAD, nullptr) ==
        CACHALOT_OK);
  CHECK(cachalot_cu_free_async(allocator, pointer, none, nullptr) == CACHALOT_OK);
  CHECK(cachalot_allocator_destroy(allocator, nullptr) == CACHALOT_OK);
}
