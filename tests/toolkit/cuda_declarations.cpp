// SPDX-License-Identifier: MIT OR Apache-2.0
// Our declarations of the CUDA driver's interface against the real ones: compiling is the test.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>

#include "cachalot/driver.h"
#include "cuda_types.h"
#include "device/device.h"

namespace cuda = cachalot::cuda;

// ---- Functions, each in the form of its version; a name without that version does not compile.

namespace cachalot_test {

#define SAME_FUNCTION(name, version, ...)                                                  \
  static_assert(same_shape<__VA_ARGS__, std::remove_pointer_t<PFN_##name##_v##version>>(), \
                #name " is declared otherwise");
namespace declared {
using namespace cachalot::cuda;
CACHALOT_CUDA_FUNCTIONS(SAME_FUNCTION)
CACHALOT_CUDA_VIRTUAL_MEMORY(SAME_FUNCTION)
CACHALOT_CUDA_MEMORY_POOLS(SAME_FUNCTION)
CACHALOT_CUDA_GRAPH_EDGES(SAME_FUNCTION)
CACHALOT_CUDA_CONTEXT_EVENTS(SAME_FUNCTION)
CACHALOT_CUDA_HOST_MEMORY(SAME_FUNCTION)
CACHALOT_CUDA_IPC(SAME_FUNCTION)
CACHALOT_CUDA_GPU_UUID(SAME_FUNCTION)
CACHALOT_CUDA_INSTANCE_UUID(SAME_FUNCTION)
}  // namespace declared
#undef SAME_FUNCTION

}  // namespace cachalot_test

// ---- Structs

SAME_SIZE(cuda::IpcHandle, CUipcMemHandle);
SAME_FIELD(cuda::IpcHandle, reserved, CUipcMemHandle, reserved);

SAME_SIZE(cuda::Uuid, CUuuid);
SAME_FIELD(cuda::Uuid, bytes, CUuuid, bytes);

SAME_SIZE(cuda::MemoryLocation, CUmemLocation);
SAME_FIELD(cuda::MemoryLocation, type, CUmemLocation, type);
SAME_FIELD(cuda::MemoryLocation, id, CUmemLocation, id);

SAME_SIZE(cuda::AllocationProperties, CUmemAllocationProp);
SAME_FIELD(cuda::AllocationProperties, type, CUmemAllocationProp, type);
SAME_FIELD(cuda::AllocationProperties, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(cuda::AllocationProperties, location, CUmemAllocationProp, location);
SAME_FIELD(cuda::AllocationProperties, win32_meta_data, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(cuda::AllocationProperties, flags, CUmemAllocationProp, allocFlags);
using OurFlags = decltype(cuda::AllocationProperties::flags);
using TheirFlags = decltype(CUmemAllocationProp::allocFlags);
SAME_FIELD(OurFlags, compression_type, TheirFlags, compressionType);
SAME_FIELD(OurFlags, gpu_direct_rdma_capable, TheirFlags, gpuDirectRDMACapable);
SAME_FIELD(OurFlags, usage, TheirFlags, usage);
SAME_FIELD(OurFlags, reserved, TheirFlags, reserved);

SAME_SIZE(cuda::AccessDescriptor, CUmemAccessDesc);
SAME_FIELD(cuda::AccessDescriptor, location, CUmemAccessDesc, location);
SAME_FIELD(cuda::AccessDescriptor, flags, CUmemAccessDesc, flags);

SAME_SIZE(cuda::GraphEdge, CUgraphEdgeData);
SAME_FIELD(cuda::GraphEdge, from_port, CUgraphEdgeData, from_port);
SAME_FIELD(cuda::GraphEdge, to_port, CUgraphEdgeData, to_port);
SAME_FIELD(cuda::GraphEdge, type, CUgraphEdgeData, type);
SAME_FIELD(cuda::GraphEdge, reserved, CUgraphEdgeData, reserved);

static_assert(sizeof(cachalot::ShareableHandle) == sizeof(CUmemFabricHandle));
static_assert(sizeof(cachalot_shareable_handle) == sizeof(CUmemFabricHandle));

// ---- Constants

#define SAME_VALUE(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

SAME_VALUE(cachalot::kSuccess, CUDA_SUCCESS);
SAME_VALUE(cachalot::kInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(cachalot::kDriverOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(cachalot::kNotReady, CUDA_ERROR_NOT_READY);
SAME_VALUE(cachalot::kDriverNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(cuda::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(cuda::kDeinitialized, CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(cuda::kPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);

SAME_VALUE(cachalot::HandleType::kNone, CU_MEM_HANDLE_TYPE_NONE);
SAME_VALUE(cachalot::HandleType::kPosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(cachalot::HandleType::kFabric, CU_MEM_HANDLE_TYPE_FABRIC);
SAME_VALUE(cachalot::kRelaxedCaptureMode, CU_STREAM_CAPTURE_MODE_RELAXED);

SAME_VALUE(cuda::kVirtualMemorySupported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(cuda::kMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME_VALUE(cuda::kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(cuda::kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(cuda::kCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(cuda::kAllocationTypePinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(cuda::kLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(cuda::kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(cuda::kGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(cuda::kProcAddressLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);

// The public header's.
SAME_VALUE(CACHALOT_DRIVER_SUCCESS, CUDA_SUCCESS);
SAME_VALUE(CACHALOT_DRIVER_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(CACHALOT_DRIVER_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(CACHALOT_DRIVER_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_VALUE(CACHALOT_DRIVER_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(CACHALOT_HANDLE_NONE, CU_MEM_HANDLE_TYPE_NONE);
SAME_VALUE(CACHALOT_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(CACHALOT_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
