// SPDX-License-Identifier: MIT OR Apache-2.0
// Our own declarations of the parts of the management library (NVML) that are used. tests/toolkit
// compares them with the real nvml.h.
#pragma once

namespace cachalot::nvml {

using Result = int;
using Device = struct DeviceObject*;

inline constexpr Result kInsufficientSize = 7;
inline constexpr unsigned char kFabricNotSupported = 0;

// A row of nvmlDeviceGetComputeRunningProcesses in its first form, which the library keeps and
// which the reference asks for.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
};

struct FabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  Result status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
};
inline constexpr unsigned kFabricInfoVersion = sizeof(FabricInfo) | (2u << 24);

// X(name, result and parameters).
#define CACHALOT_NVML_FUNCTIONS(X)                                  \
  X(nvmlInit_v2, Result())                                          \
  X(nvmlShutdown, Result())                                         \
  X(nvmlDeviceGetHandleByPciBusId_v2, Result(const char*, Device*)) \
  X(nvmlDeviceGetComputeRunningProcesses, Result(Device, unsigned*, ProcessInfo*))

// Only in newer libraries.
#define CACHALOT_NVML_FABRIC_FUNCTIONS(X) \
  X(nvmlDeviceGetGpuFabricInfoV, Result(Device, FabricInfo*))

}  // namespace cachalot::nvml
