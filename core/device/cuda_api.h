// SPDX-License-Identifier: MIT OR Apache-2.0
// Our own declarations of the parts of the CUDA driver's interface that are used, so that no toolkit
// is needed. tests/toolkit compares them with the real cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cachalot::cuda {

using Result = int;
using DeviceOrdinal = int;
using DeviceAddress = unsigned long long;
using Context = struct ContextObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;
using Graph = struct GraphObject*;
using GraphNode = struct GraphNodeObject*;
using MemoryPool = struct MemoryPoolObject*;
using AllocationHandle = unsigned long long;

inline constexpr Result kNotInitialized = 3;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;

inline constexpr int kVirtualMemorySupported = 102;  // CU_DEVICE_ATTRIBUTE_…
inline constexpr int kRdmaWithVirtualMemorySupported = 110;
inline constexpr int kMemoryPoolsSupported = 115;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureStatusActive = 1;
inline constexpr int kAllocationTypePinned = 1;
inline constexpr int kLocationTypeDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityMinimum = 0;
inline constexpr unsigned kIpcLazyPeerAccess = 1;
inline constexpr uint64_t kProcAddressLegacyStream = 1;
inline constexpr uint64_t kLegacyStream = 1;  // a handle that names a stream without being one

struct MemoryLocation {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  int handle_types;
  MemoryLocation location;
  void* win32_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct IpcHandle {
  char reserved[64];
};

struct Uuid {
  char bytes[16];
};

struct AccessDescriptor {
  MemoryLocation location;
  int flags;
};

struct GraphEdge {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};

// X(name, version, result and parameters): every function that is used, in the form that it had in
// that version of CUDA (12030: CUDA 12.3), which cuGetProcAddress keeps giving.
//
// Needed always.
#define CACHALOT_CUDA_FUNCTIONS(X)                                                     \
  X(cuInit, 2000, Result(unsigned))                                                    \
  X(cuDeviceGetCount, 2000, Result(int*))                                              \
  X(cuDeviceGet, 2000, Result(DeviceOrdinal*, int))                                    \
  X(cuDeviceGetAttribute, 2000, Result(int*, int, DeviceOrdinal))                      \
  X(cuDeviceGetPCIBusId, 4010, Result(char*, int, DeviceOrdinal))                      \
  X(cuDeviceTotalMem, 3020, Result(size_t*, DeviceOrdinal))                            \
  X(cuDevicePrimaryCtxRetain, 7000, Result(Context*, DeviceOrdinal))                   \
  X(cuDevicePrimaryCtxRelease, 11000, Result(DeviceOrdinal))                           \
  X(cuCtxGetCurrent, 4000, Result(Context*))                                           \
  X(cuCtxPushCurrent, 4000, Result(Context))                                           \
  X(cuCtxPopCurrent, 4000, Result(Context*))                                           \
  X(cuCtxSynchronize, 2000, Result())                                                  \
  X(cuCtxEnablePeerAccess, 4000, Result(Context, unsigned))                            \
  X(cuGetErrorString, 6000, Result(Result, const char**))                              \
  X(cuMemGetInfo, 3020, Result(size_t*, size_t*))                                      \
  X(cuMemAlloc, 3020, Result(DeviceAddress*, size_t))                                  \
  X(cuMemFree, 3020, Result(DeviceAddress))                                            \
  X(cuMemsetD8Async, 3020, Result(DeviceAddress, unsigned char, size_t, StreamHandle)) \
  X(cuMemcpyDtoHAsync, 3020, Result(void*, DeviceAddress, size_t, StreamHandle))       \
  X(cuMemcpyAsync, 4000, Result(DeviceAddress, DeviceAddress, size_t, StreamHandle))   \
  X(cuMemcpyPeerAsync, 4000,                                                           \
    Result(DeviceAddress, Context, DeviceAddress, Context, size_t, StreamHandle))      \
  X(cuEventCreate, 2000, Result(EventHandle*, unsigned))                               \
  X(cuEventDestroy, 4000, Result(EventHandle))                                         \
  X(cuEventRecord, 2000, Result(EventHandle, StreamHandle))                            \
  X(cuEventQuery, 2000, Result(EventHandle))                                           \
  X(cuEventSynchronize, 2000, Result(EventHandle))                                     \
  X(cuStreamCreate, 2000, Result(StreamHandle*, unsigned))                             \
  X(cuStreamDestroy, 4000, Result(StreamHandle))                                       \
  X(cuStreamSynchronize, 2000, Result(StreamHandle))                                   \
  X(cuStreamWaitEvent, 3020, Result(StreamHandle, EventHandle, unsigned))              \
  X(cuStreamGetCaptureInfo, 11030,                                                     \
    Result(StreamHandle, int*, uint64_t*, Graph*, const GraphNode**, size_t*))         \
  X(cuGraphNodeGetDependencies, 10000, Result(GraphNode, GraphNode*, size_t*))         \
  X(cuThreadExchangeStreamCaptureMode, 10010, Result(int*))

// For expandable segments.
#define CACHALOT_CUDA_VIRTUAL_MEMORY(X)                                                           \
  X(cuMemAddressReserve, 10020, Result(DeviceAddress*, size_t, size_t, DeviceAddress, uint64_t))  \
  X(cuMemAddressFree, 10020, Result(DeviceAddress, size_t))                                       \
  X(cuMemCreate, 10020, Result(AllocationHandle*, size_t, const AllocationProperties*, uint64_t)) \
  X(cuMemRelease, 10020, Result(AllocationHandle))                                                \
  X(cuMemMap, 10020, Result(DeviceAddress, size_t, size_t, AllocationHandle, uint64_t))           \
  X(cuMemUnmap, 10020, Result(DeviceAddress, size_t))                                             \
  X(cuMemSetAccess, 10020, Result(DeviceAddress, size_t, const AccessDescriptor*, size_t))        \
  X(cuMemGetAllocationGranularity, 10020, Result(size_t*, const AllocationProperties*, int))      \
  X(cuMemExportToShareableHandle, 10020, Result(void*, AllocationHandle, int, uint64_t))          \
  X(cuMemImportFromShareableHandle, 10020, Result(AllocationHandle*, void*, int))

// For backend:cudaMallocAsync.
#define CACHALOT_CUDA_MEMORY_POOLS(X)                                               \
  X(cuMemAllocAsync, 11020, Result(DeviceAddress*, size_t, StreamHandle))           \
  X(cuMemFreeAsync, 11020, Result(DeviceAddress, StreamHandle))                     \
  X(cuDeviceGetDefaultMemPool, 11020, Result(MemoryPool*, DeviceOrdinal))           \
  X(cuMemPoolTrimTo, 11020, Result(MemoryPool, size_t))                             \
  X(cuMemPoolGetAttribute, 11020, Result(MemoryPool, int, void*))                   \
  X(cuMemPoolSetAttribute, 11020, Result(MemoryPool, int, void*))                   \
  X(cuMemPoolSetAccess, 11020, Result(MemoryPool, const AccessDescriptor*, size_t)) \
  X(cuDeviceGetGraphMemAttribute, 11040, Result(DeviceOrdinal, int, void*))         \
  X(cuDeviceSetGraphMemAttribute, 11040, Result(DeviceOrdinal, int, void*))

// Later forms, used where the driver has them: graph edges can carry data since CUDA 12.3, and the
// older forms refuse to answer for those.
#define CACHALOT_CUDA_GRAPH_EDGES(X)                                                              \
  X(cuStreamGetCaptureInfo, 12030,                                                                \
    Result(StreamHandle, int*, uint64_t*, Graph*, const GraphNode**, const GraphEdge**, size_t*)) \
  X(cuGraphNodeGetDependencies, 12030, Result(GraphNode, GraphNode*, GraphEdge*, size_t*))

// For waits of all streams.
#define CACHALOT_CUDA_CONTEXT_EVENTS(X) X(cuCtxRecordEvent, 12050, Result(Context, EventHandle))

// For pinned host memory.
#define CACHALOT_CUDA_HOST_MEMORY(X)                          \
  X(cuMemHostAlloc, 2020, Result(void**, size_t, unsigned))   \
  X(cuMemFreeHost, 2000, Result(void*))                       \
  X(cuMemHostRegister, 6050, Result(void*, size_t, unsigned)) \
  X(cuMemHostUnregister, 4000, Result(void*))

// Which GPU a device is a part of; the later form names the instance where the GPU is divided (MIG).
#define CACHALOT_CUDA_GPU_UUID(X) X(cuDeviceGetUuid, 9020, Result(Uuid*, DeviceOrdinal))
#define CACHALOT_CUDA_INSTANCE_UUID(X) X(cuDeviceGetUuid, 11040, Result(Uuid*, DeviceOrdinal))

#define CACHALOT_CUDA_POINTER(name, version, ...) \
  using name##_##version = __VA_ARGS__;           \
  name##_##version* name = nullptr;

// For plain segments between processes. The structure with the bytes is passed by value.
#define CACHALOT_CUDA_IPC(X)                                                \
  X(cuIpcGetMemHandle, 4010, Result(IpcHandle*, DeviceAddress))             \
  X(cuIpcOpenMemHandle, 11000, Result(DeviceAddress*, IpcHandle, unsigned)) \
  X(cuIpcCloseMemHandle, 4010, Result(DeviceAddress))

struct VirtualMemoryFunctions {
  CACHALOT_CUDA_VIRTUAL_MEMORY(CACHALOT_CUDA_POINTER)
};
struct MemoryPoolFunctions {
  CACHALOT_CUDA_MEMORY_POOLS(CACHALOT_CUDA_POINTER)
};
struct IpcFunctions {
  CACHALOT_CUDA_IPC(CACHALOT_CUDA_POINTER)
};
struct HostMemoryFunctions {
  CACHALOT_CUDA_HOST_MEMORY(CACHALOT_CUDA_POINTER)
};
struct GraphEdgeFunctions {
  CACHALOT_CUDA_GRAPH_EDGES(CACHALOT_CUDA_POINTER)
};
struct GpuUuidFunctions {
  CACHALOT_CUDA_GPU_UUID(CACHALOT_CUDA_POINTER)
};
struct InstanceUuidFunctions {
  CACHALOT_CUDA_INSTANCE_UUID(CACHALOT_CUDA_POINTER)
};
struct ContextEventFunctions {
  CACHALOT_CUDA_CONTEXT_EVENTS(CACHALOT_CUDA_POINTER)
};
struct Functions {
  CACHALOT_CUDA_FUNCTIONS(CACHALOT_CUDA_POINTER)
};

#undef CACHALOT_CUDA_POINTER

}  // namespace cachalot::cuda
