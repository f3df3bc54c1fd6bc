// SPDX-License-Identifier: MIT OR Apache-2.0
// The own allocator of a pool that is created with `own`.
#pragma once
#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>

namespace oracle {

// All such pools share one. It only obtains and gives back segments.
std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> own_allocator();

// Its next allocations give null.
void fail_own_allocations(int count);

}  // namespace oracle
