// SPDX-License-Identifier: MIT OR Apache-2.0
#include <cub/util_allocator.cuh>

#include "check.h"
#include "contender.h"

namespace gpu {
namespace {

class Cub final : public Contender {
 public:
  Cub() : Contender("CUB") {}

  void* allocate(size_t size, cudaStream_t stream) override {
    void* address = nullptr;
    CHECK_CUDA(allocator_.DeviceAllocate(0, &address, size, stream));
    return address;
  }
  void free(void* address, cudaStream_t) override { CHECK_CUDA(allocator_.DeviceFree(0, address)); }
  void empty() override { CHECK_CUDA(allocator_.FreeAllCached()); }

 private:
  // Bins of 2^9 to 2^34 bytes.
  cub::CachingDeviceAllocator allocator_{2, 9, 34};
};

}  // namespace

std::unique_ptr<Contender> make_cub() { return std::make_unique<Cub>(); }

}  // namespace gpu
