// SPDX-License-Identifier: MIT OR Apache-2.0
// The driver's functions, found through the runtime: no program is linked with libcuda.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "check.h"

namespace gpu {

template <class Function>
Function driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result = {};
  CHECK_CUDA(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &result));
  require(result == cudaDriverEntryPointSuccess && address,
          std::string("the driver has no ") + name);
  return reinterpret_cast<Function>(address);
}

#define DRIVER_FUNCTION(name) \
  const decltype(&name) name##_p = driver_function<decltype(&name)>(#name)

struct Driver {
  DRIVER_FUNCTION(cuMemAlloc);
  DRIVER_FUNCTION(cuMemFree);
  DRIVER_FUNCTION(cuMemAddressReserve);
  DRIVER_FUNCTION(cuMemCreate);
  DRIVER_FUNCTION(cuMemMap);
  DRIVER_FUNCTION(cuMemSetAccess);
  DRIVER_FUNCTION(cuMemUnmap);
  DRIVER_FUNCTION(cuMemRelease);
  DRIVER_FUNCTION(cuMemAddressFree);
  DRIVER_FUNCTION(cuMemGetAllocationGranularity);
  DRIVER_FUNCTION(cuDeviceTotalMem);
  DRIVER_FUNCTION(cuDeviceGetAttribute);
  DRIVER_FUNCTION(cuGetErrorString);

  void check(CUresult code, const char* call) const {
    if (code == CUDA_SUCCESS) return;
    const char* text = nullptr;
    cuGetErrorString_p(code, &text);
    throw Failure(std::string(call) + ": " + (text ? text : "unknown error") + " (" +
                  std::to_string(code) + ")");
  }
};

#undef DRIVER_FUNCTION

// Of pages of device 0.
inline CUmemAllocationProp page_property() {
  CUmemAllocationProp property = {};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  property.location.id = 0;
  return property;
}

}  // namespace gpu
