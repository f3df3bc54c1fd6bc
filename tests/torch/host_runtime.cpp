// SPDX-License-Identifier: MIT OR Apache-2.0
// A CUDA 13 runtime whose devices have the host's memory: PyTorch's own binaries run on it without a GPU. Copies copy,
// and all work is done when a call returns. Kernels do nothing, so that only tensors that were copied have contents.
// Its memory is that of cachalot's driver `host-shared`, so that either of the two opens what the other one shares.
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "device/memory_file.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

constexpr uint64_t kTotal = uint64_t{8} << 30;

std::atomic<uintptr_t> next_handle{0x1000};
thread_local int current_device = 0;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

struct Memory {
  std::mutex mutex;
  std::map<void*, cachalot::MemoryFile> segments;
  std::map<void*, cachalot::MemoryFile> opened;  // of other processes
  uint64_t used = 0;
};

Memory& memory() {
  static auto* const only =
      new Memory;  // never destroyed: PyTorch frees memory when the process ends
  return *only;
}

template <typename Handle>
Handle new_handle() {
  return reinterpret_cast<Handle>(next_handle += 0x10);
}

// Null if the system refuses.
void* map(const cachalot::MemoryFile& file) {
  return file.is_open() ? reinterpret_cast<void*>(file.map(0, PROT_READ | PROT_WRITE)) : nullptr;
}

// Gives how many bytes it had; 0: there is no such memory.
uint64_t unmap(void* address, std::map<void*, cachalot::MemoryFile>* files) {
  const auto found = files->find(address);
  if (found == files->end()) return 0;
  const uint64_t size = found->second.size();
  munmap(address, size);
  files->erase(found);
  return size;
}

int device_count() {
  const char* const text = std::getenv("HOST_RUNTIME_DEVICES");
  return text ? std::atoi(text) : 2;
}

}  // namespace

// ---- Memory

API cudaError_t cudaMalloc(void** address, size_t size) {
  const std::lock_guard lock(memory().mutex);
  if (size > kTotal - memory().used) return cudaErrorMemoryAllocation;
  auto file = cachalot::MemoryFile::create(size);
  *address = map(file);
  if (!*address) return cudaErrorMemoryAllocation;
  memory().used += size;
  memory().segments[*address] = std::move(file);
  return cudaSuccess;
}

API cudaError_t cudaFree(void* address) {
  if (!address) return cudaSuccess;
  const std::lock_guard lock(memory().mutex);
  const uint64_t size = unmap(address, &memory().segments);
  memory().used -= size;
  return size > 0 ? cudaSuccess : cudaErrorInvalidValue;
}

API cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  const std::lock_guard lock(memory().mutex);
  *available = kTotal - memory().used;
  *total = kTotal;
  return cudaSuccess;
}

API cudaError_t cudaHostAlloc(void** address, size_t size, unsigned) {
  *address = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}

API cudaError_t cudaFreeHost(void* address) {
  std::free(address);
  return cudaSuccess;
}

API cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  std::memmove(to, from, size);
  return cudaSuccess;
}

API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind,
                                cudaStream_t) {
  return cudaMemcpy(to, from, size, kind);
}

API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size,
                                    cudaStream_t) {
  return cudaMemcpy(to, from, size, cudaMemcpyDefault);
}

API cudaError_t cudaMemset(void* address, int value, size_t size) {
  std::memset(address, value, size);
  return cudaSuccess;
}

API cudaError_t cudaMemsetAsync(void* address, int value, size_t size, cudaStream_t) {
  return cudaMemset(address, value, size);
}

API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = current_device;
  attributes->devicePointer = const_cast<void*>(address);
  return cudaSuccess;
}

// ---- Memory of other processes

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(cachalot::ShareableHandle));

API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().segments.find(address);
  if (found == memory().segments.end()) return cudaErrorInvalidValue;
  const cachalot::ShareableHandle shared = found->second.handle();
  std::memcpy(handle, shared.bytes, sizeof shared.bytes);
  return cudaSuccess;
}

API cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned) {
  cachalot::ShareableHandle shared;
  std::memcpy(shared.bytes, &handle, sizeof shared.bytes);
  auto file = cachalot::MemoryFile::open(shared);
  *address = map(file);
  if (!*address) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(memory().mutex);
  memory().opened[*address] = std::move(file);
  return cudaSuccess;
}

API cudaError_t cudaIpcCloseMemHandle(void* address) {
  const std::lock_guard lock(memory().mutex);
  return unmap(address, &memory().opened) > 0 ? cudaSuccess : cudaErrorInvalidValue;
}

// ---- Devices

API cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}

API cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

API cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Host memory");
  properties->totalGlobalMem = kTotal;
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  return cudaSuccess;
}

API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}

API cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13020;
  return cudaSuccess;
}

API cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

API cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return cudaSuccess;
}

// ---- Streams and events

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new_handle<cudaStream_t>();
  return cudaSuccess;
}

API cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
API cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
API cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }

API cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                         unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                         const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new_handle<cudaEvent_t>();
  return cudaSuccess;
}

API cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
API cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
API cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned) {
  return cudaSuccess;
}
API cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
API cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t) {
  *handle = {};
  return cudaSuccess;
}

API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t) {
  return cudaEventCreateWithFlags(event, 0);
}

// ---- Kernels

API void** __cudaRegisterFatBinary(void*) { return new_handle<void**>(); }
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                                dim3*, int*) {}
API void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void*) {
  *kernel = new_handle<cudaKernel_t>();
  return cudaSuccess;
}

API unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t) { return 0; }
API cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaSuccess; }
API cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaSuccess;
}
API cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaSuccess;
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  return cudaSuccess;
}

// ---- Errors

API cudaError_t cudaGetLastError() { return cudaSuccess; }
API cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
API const char* cudaGetErrorName(cudaError_t) { return "cudaError"; }
API const char* cudaGetErrorString(cudaError_t) {
  return "an error of the runtime over the host's memory";
}
