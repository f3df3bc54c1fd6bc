// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of the CUDA driver that the proxy exports, under the driver's names, and those that it calls
// beside them. All others are the driver's own: the loader finds them behind the proxy.
//
// X(exported name, function, version, result and parameters): the function in the form that it has since that
// version of CUDA. A name that ends with _ptsz takes stream 0 for the thread's own default stream.
// tests/toolkit compares all this with the toolkit's headers; tests/proxy looks that no form of a function is
// missing. Forms with addresses of 32 bits are left to the driver: no program of today can use them.
#pragma once

#include "driver_types.h"

#define CACHALOT_HOOKED_LOOKUP(X)                                                          \
  X(cuGetProcAddress, cuGetProcAddress, 11030, Result(const char*, void**, int, uint64_t)) \
  X(cuGetProcAddress_v2, cuGetProcAddress, 12000, Result(const char*, void**, int, uint64_t, int*))

#define CACHALOT_HOOKED_MEMORY(X)                                    \
  X(cuMemAlloc_v2, cuMemAlloc, 3020, Result(DeviceAddress*, size_t)) \
  X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020,                       \
    Result(DeviceAddress*, size_t*, size_t, size_t, unsigned))       \
  X(cuMemFree_v2, cuMemFree, 3020, Result(DeviceAddress))            \
  X(cuMemAllocManaged, cuMemAllocManaged, 6000, Result(DeviceAddress*, size_t, unsigned))

#define CACHALOT_HOOKED_ASYNC(X)                                                                \
  X(cuMemAllocAsync, cuMemAllocAsync, 11020, Result(DeviceAddress*, size_t, StreamHandle))      \
  X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, Result(DeviceAddress*, size_t, StreamHandle)) \
  X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020,                                    \
    Result(DeviceAddress*, size_t, MemoryPool, StreamHandle))                                   \
  X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020,                               \
    Result(DeviceAddress*, size_t, MemoryPool, StreamHandle))                                   \
  X(cuMemFreeAsync, cuMemFreeAsync, 11020, Result(DeviceAddress, StreamHandle))                 \
  X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, Result(DeviceAddress, StreamHandle))            \
  X(cuMemPoolImportPointer, cuMemPoolImportPointer, 11020,                                      \
    Result(DeviceAddress*, MemoryPool, PoolPointerData*))                                       \
  X(cuMemPoolExportPointer, cuMemPoolExportPointer, 11020,                                      \
    Result(PoolPointerData*, DeviceAddress))                                                    \
  X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, Result(MemoryPool))

#define CACHALOT_HOOKED_VIRTUAL(X)                                                                \
  X(cuMemCreate, cuMemCreate, 10020,                                                              \
    Result(AllocationHandle*, size_t, const AllocationProperties*, uint64_t))                     \
  X(cuMemRelease, cuMemRelease, 10020, Result(AllocationHandle))                                  \
  X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000,                              \
    Result(AllocationHandle*, void*))                                                             \
  X(cuMemMap, cuMemMap, 10020, Result(DeviceAddress, size_t, size_t, AllocationHandle, uint64_t)) \
  X(cuMemUnmap, cuMemUnmap, 10020, Result(DeviceAddress, size_t))                                 \
  X(cuMemSetAccess, cuMemSetAccess, 10020,                                                        \
    Result(DeviceAddress, size_t, const AccessDescriptor*, size_t))                               \
  X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020,                            \
    Result(void*, AllocationHandle, int, uint64_t))                                               \
  X(cuMemAddressReserve, cuMemAddressReserve, 10020,                                              \
    Result(DeviceAddress*, size_t, size_t, DeviceAddress, uint64_t))                              \
  X(cuMemAddressFree, cuMemAddressFree, 10020, Result(DeviceAddress, size_t))                     \
  X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070,                          \
    Result(void*, DeviceAddress, size_t, int, uint64_t))                                          \
  X(cuMemMapArrayAsync, cuMemMapArrayAsync, 11010, Result(ArrayMapping*, unsigned, StreamHandle)) \
  X(cuMemMapArrayAsync_ptsz, cuMemMapArrayAsync, 11010,                                           \
    Result(ArrayMapping*, unsigned, StreamHandle))                                                \
  X(cuMulticastBindMem, cuMulticastBindMem, 12010,                                                \
    Result(AllocationHandle, size_t, AllocationHandle, size_t, size_t, uint64_t))                 \
  X(cuMulticastBindMem_v2, cuMulticastBindMem, 13010,                                             \
    Result(AllocationHandle, DeviceOrdinal, size_t, AllocationHandle, size_t, size_t, uint64_t))  \
  X(cuMulticastBindAddr, cuMulticastBindAddr, 12010,                                              \
    Result(AllocationHandle, size_t, DeviceAddress, size_t, uint64_t))                            \
  X(cuMulticastBindAddr_v2, cuMulticastBindAddr, 13010,                                           \
    Result(AllocationHandle, DeviceOrdinal, size_t, DeviceAddress, size_t, uint64_t))

#define CACHALOT_HOOKED_HOST(X)                                                     \
  X(cuMemAllocHost, cuMemAllocHost, 2000, Result(void**, unsigned))                 \
  X(cuMemAllocHost_v2, cuMemAllocHost, 3020, Result(void**, size_t))                \
  X(cuMemHostAlloc, cuMemHostAlloc, 2020, Result(void**, size_t, unsigned))         \
  X(cuMemFreeHost, cuMemFreeHost, 2000, Result(void*))                              \
  X(cuMemHostRegister, cuMemHostRegister, 4000, Result(void*, size_t, unsigned))    \
  X(cuMemHostRegister_v2, cuMemHostRegister, 6050, Result(void*, size_t, unsigned)) \
  X(cuMemHostUnregister, cuMemHostUnregister, 4000, Result(void*))

#define CACHALOT_HOOKED_ARRAYS(X)                                                        \
  X(cuArrayCreate_v2, cuArrayCreate, 3020, Result(Array*, const ArrayDescriptor*))       \
  X(cuArray3DCreate_v2, cuArray3DCreate, 3020, Result(Array*, const Array3dDescriptor*)) \
  X(cuArrayDestroy, cuArrayDestroy, 2000, Result(Array))                                 \
  X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000,                                \
    Result(MipmappedArray*, const Array3dDescriptor*, unsigned))                         \
  X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, Result(MipmappedArray))

#define CACHALOT_HOOKED_IPC(X)                                                           \
  X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, Result(IpcMemoryHandle*, DeviceAddress)) \
  X(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010,                                        \
    Result(DeviceAddress*, IpcMemoryHandle, unsigned))                                   \
  X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000,                                    \
    Result(DeviceAddress*, IpcMemoryHandle, unsigned))                                   \
  X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, Result(DeviceAddress))

#define CACHALOT_HOOKED_STREAMS(X)                                         \
  X(cuStreamCreate, cuStreamCreate, 2000, Result(StreamHandle*, unsigned)) \
  X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050,          \
    Result(StreamHandle*, unsigned, int))                                  \
  X(cuGreenCtxStreamCreate, cuGreenCtxStreamCreate, 12050,                 \
    Result(StreamHandle*, GreenContext, unsigned, int))                    \
  X(cuStreamDestroy, cuStreamDestroy, 2000, Result(StreamHandle))          \
  X(cuStreamDestroy_v2, cuStreamDestroy, 4000, Result(StreamHandle))       \
  X(cuStreamSynchronize, cuStreamSynchronize, 2000, Result(StreamHandle))  \
  X(cuStreamSynchronize_ptsz, cuStreamSynchronize, 2000, Result(StreamHandle))

#define CACHALOT_HOOKED_CAPTURES(X)                                                       \
  X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, Result(StreamHandle))              \
  X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, 10000, Result(StreamHandle))         \
  X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, Result(StreamHandle, int))      \
  X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, 10010, Result(StreamHandle, int)) \
  X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030,                      \
    Result(StreamHandle, Graph, const GraphNode*, const GraphEdge*, size_t, int))         \
  X(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, 12030,                 \
    Result(StreamHandle, Graph, const GraphNode*, const GraphEdge*, size_t, int))         \
  X(cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph, 13030,                  \
    Result(StreamHandle, int, Graph, RecaptureCallback, void*))                           \
  X(cuStreamBeginRecaptureToGraph_ptsz, cuStreamBeginRecaptureToGraph, 13030,             \
    Result(StreamHandle, int, Graph, RecaptureCallback, void*))                           \
  X(cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig, 13010,                          \
    Result(StreamHandle, CigCaptureParameters))                                           \
  X(cuStreamBeginCaptureToCig_ptsz, cuStreamBeginCaptureToCig, 13010,                     \
    Result(StreamHandle, CigCaptureParameters))                                           \
  X(cuStreamEndCaptureToCig, cuStreamEndCaptureToCig, 13010, Result(StreamHandle))        \
  X(cuStreamEndCaptureToCig_ptsz, cuStreamEndCaptureToCig, 13010, Result(StreamHandle))   \
  X(cuStreamEndCapture, cuStreamEndCapture, 10000, Result(StreamHandle, Graph*))          \
  X(cuStreamEndCapture_ptsz, cuStreamEndCapture, 10000, Result(StreamHandle, Graph*))

#define CACHALOT_HOOKED_CONTEXTS(X)                                                        \
  X(cuCtxSynchronize, cuCtxSynchronize, 2000, Result())                                    \
  X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, Result(Context))                         \
  X(cuCtxCreate, cuCtxCreate, 2000, Result(Context*, unsigned, DeviceOrdinal))             \
  X(cuCtxCreate_v2, cuCtxCreate, 3020, Result(Context*, unsigned, DeviceOrdinal))          \
  X(cuCtxCreate_v3, cuCtxCreate, 11040,                                                    \
    Result(Context*, ExecutionAffinity*, int, unsigned, DeviceOrdinal))                    \
  X(cuCtxCreate_v4, cuCtxCreate, 12050,                                                    \
    Result(Context*, ContextParameters*, unsigned, DeviceOrdinal))                         \
  X(cuCtxFromGreenCtx, cuCtxFromGreenCtx, 12040, Result(Context*, GreenContext))           \
  X(cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, Result(GreenContext))                     \
  X(cuCtxDestroy, cuCtxDestroy, 2000, Result(Context))                                     \
  X(cuCtxDestroy_v2, cuCtxDestroy, 4000, Result(Context))                                  \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, Result(DeviceOrdinal))     \
  X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, Result(DeviceOrdinal)) \
  X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, Result(DeviceOrdinal))         \
  X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, Result(DeviceOrdinal))

#define CACHALOT_HOOKED_QUERIES(X)                                                         \
  X(cuMemGetInfo_v2, cuMemGetInfo, 3020, Result(size_t*, size_t*))                         \
  X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020,                                   \
    Result(DeviceAddress*, size_t*, DeviceAddress))                                        \
  X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, Result(void*, int, DeviceAddress)) \
  X(cuPointerGetAttributes, cuPointerGetAttributes, 7000,                                  \
    Result(unsigned, int*, void**, DeviceAddress))                                         \
  X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, Result(Context, unsigned))

#define CACHALOT_HOOKED(X)    \
  CACHALOT_HOOKED_QUERIES(X)  \
  CACHALOT_HOOKED_LOOKUP(X)   \
  CACHALOT_HOOKED_MEMORY(X)   \
  CACHALOT_HOOKED_ASYNC(X)    \
  CACHALOT_HOOKED_VIRTUAL(X)  \
  CACHALOT_HOOKED_HOST(X)     \
  CACHALOT_HOOKED_ARRAYS(X)   \
  CACHALOT_HOOKED_IPC(X)      \
  CACHALOT_HOOKED_STREAMS(X)  \
  CACHALOT_HOOKED_CAPTURES(X) \
  CACHALOT_HOOKED_CONTEXTS(X)

// What the proxy calls for itself.
#define CACHALOT_CALLED(X)                                                                     \
  X(cuDriverGetVersion, cuDriverGetVersion, 2020, Result(int*))                                \
  X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, Result(size_t*, DeviceOrdinal))               \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, Result(Context*, DeviceOrdinal)) \
  X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000,                              \
    Result(DeviceOrdinal, unsigned*, int*))                                                    \
  X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, Result(Context*))                                  \
  X(cuCtxGetDevice, cuCtxGetDevice, 2000, Result(DeviceOrdinal*))                              \
  X(cuCtxGetFlags, cuCtxGetFlags, 7000, Result(unsigned*))                                     \
  X(cuCtxGetId, cuCtxGetId, 12000, Result(Context, unsigned long long*))                       \
  X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, Result(Context))                              \
  X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, Result(Context*))                               \
  X(cuCtxRecordEvent, cuCtxRecordEvent, 12050, Result(Context, EventHandle))                   \
  X(cuEventCreate, cuEventCreate, 2000, Result(EventHandle*, unsigned))                        \
  X(cuEventQuery, cuEventQuery, 2000, Result(EventHandle))                                     \
  X(cuEventSynchronize, cuEventSynchronize, 2000, Result(EventHandle))                         \
  X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, Result(StreamHandle, int*))               \
  X(cuStreamGetCtx, cuStreamGetCtx, 9020, Result(StreamHandle, Context*))                      \
  X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, Result(char*, int, DeviceOrdinal))         \
  X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, Result(MemoryPool*, DeviceOrdinal))         \
  X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, Result(MemoryPool, int, void*))       \
  X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040,                         \
    Result(DeviceOrdinal, int, void*))

namespace cachalot::proxy {

#define CACHALOT_FORM(name, function, version, ...) using name##_form = __VA_ARGS__;
CACHALOT_HOOKED(CACHALOT_FORM)
CACHALOT_CALLED(CACHALOT_FORM)
#undef CACHALOT_FORM

}  // namespace cachalot::proxy
