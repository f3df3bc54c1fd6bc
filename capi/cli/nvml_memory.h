// SPDX-License-Identifier: MIT OR Apache-2.0
// Our own declarations of the parts of the management library (NVML) that tell what a device has in use. tests/toolkit
// compares them with the real nvml.h.
#pragma once

namespace cachalot::cli::nvml {

using Result = int;
using Device = struct DeviceObject*;

struct Memory {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
inline constexpr unsigned kMemoryVersion = sizeof(Memory) | (2u << 24);

// X(name, result and parameters).
#define CACHALOT_NVML_MEMORY_FUNCTIONS(X)                           \
  X(nvmlInit_v2, Result())                                          \
  X(nvmlShutdown, Result())                                         \
  X(nvmlDeviceGetCount_v2, Result(unsigned*))                       \
  X(nvmlDeviceGetHandleByIndex_v2, Result(unsigned, Device*))       \
  X(nvmlDeviceGetHandleByPciBusId_v2, Result(const char*, Device*)) \
  X(nvmlDeviceGetUUID, Result(Device, char*, unsigned))             \
  X(nvmlDeviceGetMemoryInfo_v2, Result(Device, Memory*))

#define CACHALOT_NVML_FORM(name, ...) using name##_form = __VA_ARGS__;
CACHALOT_NVML_MEMORY_FUNCTIONS(CACHALOT_NVML_FORM)
#undef CACHALOT_NVML_FORM

}  // namespace cachalot::cli::nvml
