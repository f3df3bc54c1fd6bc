// SPDX-License-Identifier: MIT OR Apache-2.0
// A libnvidia-ml.so.1 that knows two processes, this one among them, and a device with a fabric.
#include <unistd.h>

#include <cstring>

#include "device/nvml_api.h"

using namespace cachalot::nvml;

#define CACHALOT_EXPORT extern "C" __attribute__((visibility("default")))

CACHALOT_EXPORT Result nvmlInit_v2() { return 0; }
CACHALOT_EXPORT Result nvmlShutdown() { return 0; }

CACHALOT_EXPORT Result nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  *device = reinterpret_cast<Device>(1);
  return std::strcmp(id, "0000:1a:00.0") == 0 ? 0 : 2;
}

CACHALOT_EXPORT Result nvmlDeviceGetComputeRunningProcesses(Device, unsigned* count,
                                                            ProcessInfo* rows) {
  const unsigned capacity = *count;
  *count = 2;
  if (capacity < 2) return kInsufficientSize;
  rows[0] = {4711, 3ull << 30};
  rows[1] = {static_cast<unsigned>(getpid()), 610ull << 20};
  return 0;
}

CACHALOT_EXPORT Result nvmlDeviceGetGpuFabricInfoV(Device, FabricInfo* info) {
  if (info->version != kFabricInfoVersion) return 2;
  info->state = 3;
  return 0;
}
