// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/nvml.h"

#include <dlfcn.h>

#include <utility>

namespace cachalot {

#define CACHALOT_NVML_POINTER(name, ...) \
  using name##_type = __VA_ARGS__;       \
  name##_type* name = nullptr;

namespace nvml {

struct Pointers {
  CACHALOT_NVML_FUNCTIONS(CACHALOT_NVML_POINTER)
  CACHALOT_NVML_FABRIC_FUNCTIONS(CACHALOT_NVML_POINTER)
};

}  // namespace nvml

#undef CACHALOT_NVML_POINTER

struct Nvml::Functions : nvml::Pointers {};

namespace {

constexpr const char* kName = "libnvidia-ml.so.1";

template <class Function>
bool find(void* handle, const char* name, Function** out) {
  *out = reinterpret_cast<Function*>(dlsym(handle, name));
  return *out != nullptr;
}

// clang-format off
#define CACHALOT_NVML_FIND(name, ...) && find(handle, #name, &out->name)
// clang-format on

bool find_all(void* handle, nvml::Pointers* out) {
  find(handle, "nvmlDeviceGetGpuFabricInfoV", &out->nvmlDeviceGetGpuFabricInfoV);
  return true CACHALOT_NVML_FUNCTIONS(CACHALOT_NVML_FIND);
}

#undef CACHALOT_NVML_FIND

}  // namespace

Nvml::Nvml() = default;

Nvml::~Nvml() {
  if (functions_ != nullptr && !fork_mark_.is_in_child()) functions_->nvmlShutdown();
}

// The library stays in the process once it is opened, like the driver's.
const Nvml::Functions* Nvml::functions() {
  const std::lock_guard guard(lock_);
  if (std::exchange(has_tried_, true)) return functions_.get();
  auto found = std::make_unique<Functions>();
  void* const handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr || !find_all(handle, found.get()) || found->nvmlInit_v2() != 0)
    return nullptr;
  functions_ = std::move(found);
  return functions_.get();
}

nvml::Device Nvml::device(const Functions& functions, const std::string& pci_bus_id) {
  nvml::Device device = nullptr;
  const bool is_known =
      functions.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.c_str(), &device) == 0;
  return is_known ? device : nullptr;
}

std::vector<DeviceProcess> Nvml::processes(const std::string& pci_bus_id) {
  const Functions* const known = functions();
  const nvml::Device handle = known ? device(*known, pci_bus_id) : nullptr;
  if (handle == nullptr) return {};
  std::vector<nvml::ProcessInfo> rows(64);
  auto count = static_cast<unsigned>(rows.size());
  nvml::Result code = known->nvmlDeviceGetComputeRunningProcesses(handle, &count, rows.data());
  if (code == nvml::kInsufficientSize) {
    rows.resize(count + 16);  // some may have started meanwhile
    count = static_cast<unsigned>(rows.size());
    code = known->nvmlDeviceGetComputeRunningProcesses(handle, &count, rows.data());
  }
  if (code != 0) return {};
  std::vector<DeviceProcess> processes;
  for (unsigned i = 0; i < count && i < rows.size(); i++)
    processes.push_back({rows[i].pid, rows[i].used_memory});
  return processes;
}

std::optional<bool> Nvml::is_part_of_fabric(const std::string& pci_bus_id) {
  const Functions* const known = functions();
  if (known == nullptr || known->nvmlDeviceGetGpuFabricInfoV == nullptr) return {};
  const nvml::Device handle = device(*known, pci_bus_id);
  nvml::FabricInfo info{};
  info.version = nvml::kFabricInfoVersion;
  if (handle == nullptr || known->nvmlDeviceGetGpuFabricInfoV(handle, &info) != 0) return {};
  return info.state != nvml::kFabricNotSupported;
}

}  // namespace cachalot
