// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device_memory.h"

#include <dlfcn.h>

#include <utility>

#include "nvml_memory.h"

namespace cachalot::cli {

struct DeviceMemory::Functions {
#define CACHALOT_NVML_POINTER(name, ...) nvml::name##_form* name = nullptr;
  CACHALOT_NVML_MEMORY_FUNCTIONS(CACHALOT_NVML_POINTER)
#undef CACHALOT_NVML_POINTER

  bool find(void* library) {
    bool are_there = true;
#define CACHALOT_NVML_FIND(name, ...)                                 \
  name = reinterpret_cast<nvml::name##_form*>(dlsym(library, #name)); \
  are_there = are_there && name != nullptr;
    CACHALOT_NVML_MEMORY_FUNCTIONS(CACHALOT_NVML_FIND)
#undef CACHALOT_NVML_FIND
    return are_there;
  }

  std::optional<nvml::Memory> memory(nvml::Device device) const {
    nvml::Memory memory{};
    memory.version = nvml::kMemoryVersion;
    if (nvmlDeviceGetMemoryInfo_v2(device, &memory) != 0) return {};
    return memory;
  }
};

DeviceMemory::DeviceMemory() {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return;
  auto functions = std::make_unique<Functions>();
  unsigned count = 0;
  if (!functions->find(library_) || functions->nvmlInit_v2() != 0) return;
  functions_ = std::move(functions);
  if (functions_->nvmlDeviceGetCount_v2(&count) != 0) return;
  for (unsigned i = 0; i < count; i++) {
    nvml::Device device = nullptr;
    if (functions_->nvmlDeviceGetHandleByIndex_v2(i, &device) != 0) continue;
    if (const auto memory = functions_->memory(device)) used_before_[device] = memory->used;
  }
}

DeviceMemory::~DeviceMemory() {
  if (functions_ != nullptr) functions_->nvmlShutdown();
  if (library_ != nullptr) dlclose(library_);
}

std::optional<DeviceBytes> DeviceMemory::at(const std::string& bus) const {
  nvml::Device device = nullptr;
  if (functions_ == nullptr ||
      functions_->nvmlDeviceGetHandleByPciBusId_v2(bus.c_str(), &device) != 0)
    return {};
  const auto memory = functions_->memory(device);
  if (!memory) return {};
  char uuid[96] = "";
  if (functions_->nvmlDeviceGetUUID(device, uuid, sizeof uuid) != 0) uuid[0] = 0;
  const auto before = used_before_.find(device);
  return DeviceBytes{uuid, memory->total, memory->used,
                     before == used_before_.end() ? 0 : before->second};
}

}  // namespace cachalot::cli
