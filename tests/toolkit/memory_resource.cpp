// SPDX-License-Identifier: MIT OR Apache-2.0
// The concepts of CCCL's memory resources, which have new names since 3.1, and a resource behind its references.
// Runs without a GPU: memory is the host's.
#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE  // as release 2 asks for
#endif
#include "cachalot/memory_resource.hpp"

#include <cuda/memory_resource>

#include "host_allocator.h"

using cuda::mr::device_accessible;
using cuda::mr::host_accessible;
using OnDevice = cachalot::cuda::Resource<device_accessible>;
using OnBoth = cachalot::cuda::Resource<device_accessible, host_accessible>;

#if CCCL_VERSION >= 3001000

static_assert(cuda::mr::synchronous_resource_with<OnDevice, device_accessible>);
static_assert(cuda::mr::resource_with<OnDevice, device_accessible>);
static_assert(!cuda::mr::resource_with<OnDevice, host_accessible>);
static_assert(cuda::mr::resource_with<OnBoth, device_accessible, host_accessible>);

void use(OnBoth resource, cuda::stream_ref stream) {
  cuda::mr::resource_ref<device_accessible, host_accessible> ref(resource);
  ref.deallocate(stream, ref.allocate(stream, 1000, 256), 1000, 256);
  ref.deallocate_sync(ref.allocate_sync(1000, 256), 1000, 256);
}

#else

static_assert(cuda::mr::resource_with<OnDevice, device_accessible>);
static_assert(cuda::mr::async_resource_with<OnDevice, device_accessible>);
static_assert(!cuda::mr::async_resource_with<OnDevice, host_accessible>);
static_assert(cuda::mr::async_resource_with<OnBoth, device_accessible, host_accessible>);

void use(OnBoth resource, cuda::stream_ref stream) {
  cuda::mr::async_resource_ref<device_accessible, host_accessible> ref(resource);
  ref.deallocate_async(ref.allocate_async(1000, 256, stream), 1000, 256, stream);
  ref.deallocate(ref.allocate(1000, 256), 1000, 256);
}

#endif

int main() {
  cachalot_allocator* allocator = open_host_allocator();
  use(OnBoth(allocator), cuda::stream_ref{cudaStream_t{}});
  cachalot_stats stats = {};
  stats.struct_size = sizeof stats;
  CHECK(cachalot_get_stats(allocator, 0, &stats, nullptr) == CACHALOT_OK);
  CHECK(stats.allocation.all.allocated == 2);
  CHECK(cachalot_allocator_destroy(allocator, nullptr) == CACHALOT_OK);
}
