// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned host memory of the NVIDIA driver. With unified addresses, which all 64-bit systems have, any context
// serves every device.
#pragma once

#include "base/units.h"
#include "device/cuda_contexts.h"
#include "device/cuda_library.h"
#include "device/device.h"
#include "device/host_memory.h"

namespace cachalot {

// As the functions of Driver. Any thread.
class CudaHostMemory {
 public:
  CudaHostMemory(const cuda::Library& library, cuda::Contexts& contexts)
      : library_(library), contexts_(contexts) {}

  DriverCode allocate(uint64_t size, HostMemoryOrigin origin, int register_threads,
                      Address* address);
  DriverCode free(Address address, HostMemoryOrigin origin);

 private:
  DriverCode allocate_registered(uint64_t size, int threads, Address* address);
  DriverCode free_registered(Address address);
  // Makes a call in the context of a device that is in use.
  template <class Call>
  DriverCode call(Call call);

  const cuda::Library& library_;
  cuda::Contexts& contexts_;
  HostMemory registered_{kUnlimited};  // ordinary memory, which the driver is told of
};

}  // namespace cachalot
