// SPDX-License-Identifier: MIT OR Apache-2.0
// Our declarations of the management library against the real ones: compiling is the test.
#define NVML_NO_UNVERSIONED_FUNC_DEFS  // a name means the function of that name, not its newest form
#include <nvml.h>

#include <cstddef>

#include "device/nvml_api.h"
#include "nvml_memory.h"
#include "shape.h"

namespace nvml = cachalot::nvml;
namespace tool = cachalot::cli::nvml;

namespace cachalot_test {

template <>
inline constexpr bool kAreOne<std::remove_pointer_t<nvml::Device>, nvmlDevice_st> = true;
template <>
inline constexpr bool kAreOne<nvml::ProcessInfo, nvmlProcessInfo_v1_t> = true;
template <>
inline constexpr bool kAreOne<std::remove_pointer_t<tool::Device>, nvmlDevice_st> = true;
template <>
inline constexpr bool kAreOne<tool::Memory, nvmlMemory_v2_t> = true;
// The function takes every version of the struct, and says by its type the newest one.
template <>
inline constexpr bool kAreOne<nvml::FabricInfo, nvmlGpuFabricInfoV_t> = true;

#define SAME_FUNCTION(name, ...) \
  static_assert(same_shape<__VA_ARGS__, decltype(::name)>(), #name " is declared otherwise");
namespace declared {
using namespace cachalot::nvml;
CACHALOT_NVML_FUNCTIONS(SAME_FUNCTION)
CACHALOT_NVML_FABRIC_FUNCTIONS(SAME_FUNCTION)
}  // namespace declared
namespace declared_by_tools {
using namespace cachalot::cli::nvml;
CACHALOT_NVML_MEMORY_FUNCTIONS(SAME_FUNCTION)
}  // namespace declared_by_tools
#undef SAME_FUNCTION

}  // namespace cachalot_test

SAME_SIZE(nvml::ProcessInfo, nvmlProcessInfo_v1_t);
SAME_FIELD(nvml::ProcessInfo, pid, nvmlProcessInfo_v1_t, pid);
SAME_FIELD(nvml::ProcessInfo, used_memory, nvmlProcessInfo_v1_t, usedGpuMemory);

SAME_SIZE(tool::Memory, nvmlMemory_v2_t);
SAME_FIELD(tool::Memory, version, nvmlMemory_v2_t, version);
SAME_FIELD(tool::Memory, total, nvmlMemory_v2_t, total);
SAME_FIELD(tool::Memory, reserved, nvmlMemory_v2_t, reserved);
SAME_FIELD(tool::Memory, free, nvmlMemory_v2_t, free);
SAME_FIELD(tool::Memory, used, nvmlMemory_v2_t, used);

SAME_SIZE(nvml::FabricInfo, nvmlGpuFabricInfo_v2_t);
SAME_FIELD(nvml::FabricInfo, version, nvmlGpuFabricInfo_v2_t, version);
SAME_FIELD(nvml::FabricInfo, cluster_uuid, nvmlGpuFabricInfo_v2_t, clusterUuid);
SAME_FIELD(nvml::FabricInfo, status, nvmlGpuFabricInfo_v2_t, status);
SAME_FIELD(nvml::FabricInfo, clique_id, nvmlGpuFabricInfo_v2_t, cliqueId);
SAME_FIELD(nvml::FabricInfo, state, nvmlGpuFabricInfo_v2_t, state);
SAME_FIELD(nvml::FabricInfo, health_mask, nvmlGpuFabricInfo_v2_t, healthMask);

static_assert(tool::kMemoryVersion == nvmlMemory_v2);
static_assert(nvml::kFabricInfoVersion == nvmlGpuFabricInfo_v2);
static_assert(nvml::kFabricNotSupported == NVML_GPU_FABRIC_STATE_NOT_SUPPORTED);
static_assert(nvml::kInsufficientSize == NVML_ERROR_INSUFFICIENT_SIZE);
