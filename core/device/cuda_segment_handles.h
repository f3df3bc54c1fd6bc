// SPDX-License-Identifier: MIT OR Apache-2.0
// CUDA's handles for whole allocations between processes (cuIpc).
#pragma once

#include "device/cuda_contexts.h"
#include "device/cuda_library.h"
#include "device/device.h"

namespace cachalot {

// A handle is not opened in the process that made it. pre of the functions: the driver has them.
class CudaSegmentHandles final : public SegmentHandles {
 public:
  // Both outlive it.
  CudaSegmentHandles(const cuda::Library& library, cuda::Contexts& contexts)
      : library_(library), contexts_(contexts) {}

  DriverCode get(int device, Address address, ShareableHandle* handle) override;
  DriverCode open(int device, const ShareableHandle& handle, Address* address) override;
  DriverCode close(int device, Address address) override;

 private:
  const cuda::Library& library_;
  cuda::Contexts& contexts_;
};

}  // namespace cachalot
