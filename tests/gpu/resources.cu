// SPDX-License-Identifier: MIT OR Apache-2.0
// Thrust, CUB's algorithms and cuda::buffer take their memory from cachalot: results are right, the memory is counted,
// and a second round takes none from the driver.
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "cachalot/memory_resource.hpp"
#include "check.h"

// Older releases of CCCL have no cuda::buffer.
#if CCCL_VERSION >= 3002000
#define HAS_ENVIRONMENTS 1
#include <cub/device/device_reduce.cuh>
#include <cuda/buffer>
#include <cuda/memory_resource>
#include <cuda/std/execution>
#else
#define HAS_ENVIRONMENTS 0
#endif

namespace {

constexpr int kCount = 1 << 20;
constexpr int64_t kSum = int64_t{kCount} * (kCount - 1) / 2;

// Thrust's vectors work on the default stream.
template <class T>
using Values = thrust::device_vector<T, cachalot::cuda::StreamAllocator<T, thrust::device_ptr<T>>>;

template <class T>
Values<T> make_values(cachalot_allocator* allocator, size_t count) {
  return Values<T>(count, typename Values<T>::allocator_type(allocator));
}

void sort_with_thrust(cachalot_allocator* allocator, cudaStream_t stream) {
  Values<int64_t> values = make_values<int64_t>(allocator, kCount);
  thrust::sequence(values.begin(), values.end());
  const cachalot::cuda::StreamAllocator<char> temporary(allocator, 0, stream);
  thrust::stable_sort(thrust::cuda::par(temporary).on(stream), values.begin(), values.end(),
                      thrust::greater<int64_t>());
  gpu::require(values.front() == kCount - 1 && values.back() == 0, "Thrust's order is wrong");
  gpu::require(thrust::reduce(values.begin(), values.end()) == kSum, "Thrust's sum is wrong");
}

#if HAS_ENVIRONMENTS
void reduce_with_cub(cachalot_allocator* allocator, cudaStream_t stream) {
  using Resource = cachalot::cuda::Resource<cuda::mr::device_accessible>;
  Resource resource(allocator);
  Values<int64_t> values = make_values<int64_t>(allocator, kCount);
  Values<int64_t> sum = make_values<int64_t>(allocator, 1);
  thrust::sequence(values.begin(), values.end());
  const cuda::stream_ref on{stream};
  CHECK_CUDA(cub::DeviceReduce::Sum(values.begin(), sum.begin(), kCount,
                                    cuda::std::execution::env{on, resource}));
  auto ones = cuda::make_buffer<int, cuda::mr::device_accessible>(on, resource, kCount, 1);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  gpu::require(sum.front() == kSum, "CUB's sum is wrong");
  gpu::require(thrust::reduce(thrust::device, ones.data(), ones.data() + kCount) == kCount,
               "the buffer's sum is wrong");
}
#else
void reduce_with_cub(cachalot_allocator*, cudaStream_t) {
  printf("this toolkit's CUB takes no resource: it is left out\n");
}
#endif

bool run() {
  gpu::require_gpus(1);
  const cachalot::Driver driver("cuda");
  cachalot::Allocator allocator({.driver = driver.get(), .config = ""});
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto round = [&] {
    sort_with_thrust(allocator.get(), stream);
    reduce_with_cub(allocator.get(), stream);
    CHECK_CUDA(cudaDeviceSynchronize());
    return allocator.stats();
  };
  const cachalot_stats first = round();
  const cachalot_stats second = round();
  const int64_t requests = second.allocation.all.allocated - first.allocation.all.allocated;
  const int64_t calls = second.num_device_alloc - first.num_device_alloc;
  printf("first round: %ld requests, %ld driver calls; second: %ld, %ld\n",
         static_cast<long>(first.allocation.all.allocated),
         static_cast<long>(first.num_device_alloc), static_cast<long>(requests),
         static_cast<long>(calls));
  gpu::require(requests >= (HAS_ENVIRONMENTS ? 6 : 2), "not all memory was asked of the allocator");
  gpu::require(calls == 0, "the second round took memory from the driver");
  CHECK_CUDA(cudaStreamDestroy(stream));
  allocator.close();
  printf("passed: all results are right\n");
  return true;
}

}  // namespace

int main() { return gpu::run_program(run); }
