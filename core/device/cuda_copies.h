// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies by the NVIDIA driver. One call serves all kinds of memory, since addresses name their memory in the whole
// process.
#pragma once

#include "device/cuda_contexts.h"
#include "device/cuda_library.h"
#include "device/device.h"

namespace cachalot {

class CudaCopies final : public MemoryCopies {
 public:
  CudaCopies(const cuda::Library& library, cuda::Contexts& contexts)
      : library_(library), contexts_(contexts) {}

  DriverCode copy(int device, Address to, Address from, uint64_t size, Stream stream) override;
  DriverCode copy_peer(int to_device, Address to, int from_device, Address from, uint64_t size,
                       Stream stream) override;

 private:
  const cuda::Library& library_;
  cuda::Contexts& contexts_;
};

}  // namespace cachalot
