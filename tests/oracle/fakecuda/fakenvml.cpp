// SPDX-License-Identifier: MIT OR Apache-2.0
// A simulated management library: the list of processes that PyTorch puts into its out-of-memory
// text, and the device's fabric. A library of its own, since PyTorch opens it by its name.
#include <cstdint>
#include <utility>
#include <vector>

#define FAKENVML_API extern "C" __attribute__((visibility("default")))

namespace fakecuda {
int fabric_device();
const std::vector<std::pair<unsigned, uint64_t>>& processes();
}  // namespace fakecuda

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;
constexpr unsigned char kFabricCompleted = 3;

struct ProcessInfo {
  unsigned pid;
  unsigned long long used;
};

struct FabricInfo {
  unsigned version;
  unsigned char uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
};

}  // namespace

FAKENVML_API int nvmlInit_v2() { return kSuccess; }

FAKENVML_API int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kSuccess;
}

FAKENVML_API int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  *device = reinterpret_cast<void*>(1);
  return kSuccess;
}

FAKENVML_API int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, ProcessInfo* out) {
  const auto& processes = fakecuda::processes();
  const unsigned capacity = *count;
  *count = static_cast<unsigned>(processes.size());
  if (capacity < *count) return kInsufficientSize;
  for (unsigned i = 0; i < *count; i++) out[i] = {processes[i].first, processes[i].second};
  return kSuccess;
}

FAKENVML_API int nvmlDeviceGetNvLinkRemoteDeviceType() { return kNotSupported; }

FAKENVML_API int nvmlDeviceGetNvLinkRemotePciInfo_v2() { return kNotSupported; }

FAKENVML_API int nvmlDeviceGetGpuFabricInfoV(void*, FabricInfo* info) {
  const int device = fakecuda::fabric_device();
  if (device < 0) return kNotSupported;
  info->state = device ? kFabricCompleted : 0;
  info->clique = 0;
  return kSuccess;
}
