// SPDX-License-Identifier: MIT OR Apache-2.0
// PyTorch's own allocator on the GPU, without Python: the benchmark's reference. Built against the
// installed package (build.sh).
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <exception>
#include <string>

namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*)(DeviceIndex));
}

namespace {

namespace cca = c10::cuda::CUDACachingAllocator;

std::string problem;

// NULL, or what went wrong.
template <class Call>
const char* problem_of(Call call) {
  try {
    call();
    return nullptr;
  } catch (const std::exception& failure) {
    problem = failure.what();
    return problem.c_str();
  }
}

}  // namespace

// NULL, or why it cannot run. Before the others; again is nothing.
extern "C" const char* torch_start() {
  static const char* const answer = problem_of([] {
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    cca::init(c10::cuda::device_count_ensure_non_zero());
  });
  return answer;
}

extern "C" const char* torch_configure(const char* options) {
  return problem_of([&] { c10::CachingAllocator::setAllocatorSettings(options); });
}

// NULL where there is no memory.
extern "C" void* torch_allocate(size_t size, cudaStream_t stream) {
  try {
    return cca::raw_alloc_with_stream(size, stream);
  } catch (const std::exception&) {
    return nullptr;
  }
}

extern "C" void torch_free(void* address) { cca::raw_delete(address); }

extern "C" void torch_empty() { cca::emptyCache(); }
