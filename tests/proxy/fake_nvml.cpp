// SPDX-License-Identifier: MIT OR Apache-2.0
// A libnvidia-ml.so.1 with one device, which says that so many MiB are in use as the file FAKE_NVML_USED has.
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "nvml_memory.h"

using namespace cachalot::cli::nvml;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

Device device() { return reinterpret_cast<Device>(1); }

}  // namespace

EXPORT Result nvmlInit_v2() { return 0; }
EXPORT Result nvmlShutdown() { return 0; }
EXPORT Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return 0;
}
EXPORT Result nvmlDeviceGetHandleByIndex_v2(unsigned, Device* out) {
  *out = device();
  return 0;
}
EXPORT Result nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Device* out) {
  *out = device();
  return std::strcmp(bus, "0000:1a:00.0") == 0 ? 0 : 2;
}
EXPORT Result nvmlDeviceGetUUID(Device, char* uuid, unsigned length) {
  const char text[] = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";
  if (length < sizeof text) return 7;
  std::memcpy(uuid, text, sizeof text);
  return 0;
}
EXPORT Result nvmlDeviceGetMemoryInfo_v2(Device, Memory* memory) {
  const char* const path = std::getenv("FAKE_NVML_USED");
  unsigned long long used = 0;
  if (path == nullptr || !(std::ifstream(path) >> used)) return 999;
  memory->total = 16384ull << 20;
  memory->used = used << 20;
  return 0;
}
