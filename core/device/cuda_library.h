// SPDX-License-Identifier: MIT OR Apache-2.0
// The CUDA driver's library, opened at run time.
#pragma once

#include <optional>

#include "device/cuda_api.h"

namespace cachalot::cuda {

// The oldest driver that has what is needed always.
inline constexpr int kOldestVersion = 11030;

// What the driver has. A group that it lacks, in whole or in part, is absent.
struct Library : Functions {
  int version = 0;  // 13000: CUDA 13.0
  std::optional<VirtualMemoryFunctions> virtual_memory;
  std::optional<MemoryPoolFunctions> memory_pools;
  std::optional<GraphEdgeFunctions> graph_edges;
  std::optional<ContextEventFunctions> context_events;
  std::optional<HostMemoryFunctions> host_memory;
  std::optional<IpcFunctions> ipc;
  std::optional<GpuUuidFunctions> gpu_uuid;
  std::optional<InstanceUuidFunctions> instance_uuid;
};

// Opens libcuda.so.1 and initializes it. Once opened it stays in the process, so that its threads
// and its exit handlers never lose their code. Throws Error(kDriverUnavailable) with what was tried
// and what is missing.
// name: of a library that is loaded; null: libcuda.so.1.
Library open_library(const char* name = nullptr);

// The driver's words for a code.
const char* driver_text(const Library& library, Result code);

}  // namespace cachalot::cuda
