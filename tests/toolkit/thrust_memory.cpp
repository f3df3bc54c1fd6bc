// SPDX-License-Identifier: MIT OR Apache-2.0
// Thrust with vectors and temporary memory of an allocator of ours. Its device is the CPU here, so that the program
// runs without a GPU and is compiled without nvcc; tests/gpu/resources.cu is the same with a GPU.
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include "cachalot/memory_resource.hpp"
#include "host_allocator.h"

using cachalot::cuda::StreamAllocator;
using IntAllocator = StreamAllocator<int, thrust::device_ptr<int>>;

static int64_t allocations(cachalot_allocator* allocator) {
  cachalot_stats stats = {};
  stats.struct_size = sizeof stats;
  CHECK(cachalot_get_stats(allocator, 0, &stats, nullptr) == CACHALOT_OK);
  return stats.allocation.all.allocated;
}

static void sort_downwards(cachalot_allocator* allocator) {
  thrust::device_vector<int, IntAllocator> values(1000, IntAllocator(allocator));
  thrust::sequence(values.begin(), values.end());
  CHECK(allocations(allocator) == 1);
  const StreamAllocator<char> temporary(allocator);
  thrust::stable_sort(thrust::cpp::par(temporary), values.begin(), values.end(),
                      thrust::greater<int>());
  CHECK(allocations(allocator) > 1);
  CHECK(values.front() == 999 && values.back() == 0);
  CHECK(thrust::reduce(values.begin(), values.end()) == 999 * 1000 / 2);
}

int main() {
  cachalot_allocator* allocator = open_host_allocator();
  sort_downwards(allocator);
  CHECK(cachalot_allocator_destroy(allocator, nullptr) == CACHALOT_OK);
}
