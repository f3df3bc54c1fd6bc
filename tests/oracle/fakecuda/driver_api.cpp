// SPDX-License-Identifier: MIT OR Apache-2.0
// The driver functions that PyTorch reaches through cudaGetDriverEntryPointByVersion.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>

#include "device_state.h"

using fakecuda::hex;
using fakecuda::Lock;
using fakecuda::say;
using fakecuda::state;
using std::to_string;

namespace {

constexpr size_t kGranularity = size_t{2} << 20;

CUresult address_reserve(CUdeviceptr* address, size_t size, size_t, CUdeviceptr,
                         unsigned long long) {
  Lock lock;
  const std::string call = "D reserve " + to_string(size) + " ";
  if (int error = fakecuda::due_error()) {
    say(call + "error " + to_string(error));
    return static_cast<CUresult>(error);
  }
  *address = fakecuda::place(size);
  say(call + hex(*address));
  return CUDA_SUCCESS;
}

CUresult address_free(CUdeviceptr address, size_t size) {
  Lock lock;
  state.ranges.erase(address);
  say("D unreserve " + hex(address) + " " + to_string(size));
  return CUDA_SUCCESS;
}

// The error of a creation other than out of memory, or 0.
int create_error(size_t size, const CUmemAllocationProp& properties) {
  if (size % kGranularity) return CUDA_ERROR_INVALID_VALUE;
  if (state.fabric && properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC) {
    return state.fabric;
  }
  return fakecuda::due_error();
}

CUresult create(CUmemGenericAllocationHandle* handle, size_t size,
                const CUmemAllocationProp* properties, unsigned long long) {
  Lock lock;
  fakecuda::say_if_shown(
      "handles", "D handle type " + to_string(int{properties->requestedHandleTypes}) + " rdma " +
                     to_string(properties->allocFlags.gpuDirectRDMACapable) + " device " +
                     to_string(properties->location.id));
  const std::string call = "D create " + to_string(size);
  if (int error = create_error(size, *properties)) {
    say(call + " error " + to_string(error));
    return static_cast<CUresult>(error);
  }
  if (fakecuda::refused(size)) {
    say(call + " oom");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = state.next_handle++;
  state.handles[*handle] = size;
  state.used += size;
  say(call);
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  Lock lock;
  state.used -= state.handles[handle];
  state.handles.erase(handle);
  say("D release");
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr address, size_t size, size_t, CUmemGenericAllocationHandle,
             unsigned long long) {
  Lock lock;
  say("D map " + hex(address) + " " + to_string(size));
  return CUDA_SUCCESS;
}

CUresult unmap(CUdeviceptr address, size_t size) {
  Lock lock;
  say("D unmap " + hex(address) + " " + to_string(size));
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t) {
  Lock lock;
  const std::string device =
      state.devices > 1 ? " device " + to_string(access->location.id) : std::string();
  say("D access " + hex(address) + " " + to_string(size) + device);
  return CUDA_SUCCESS;
}

CUresult get_granularity(size_t* size, const CUmemAllocationProp*,
                         CUmemAllocationGranularity_flags) {
  *size = kGranularity;
  return CUDA_SUCCESS;
}

// PyTorch takes the descriptor of a page from the process that shares it, so it has to exist.
void open_at(int descriptor) {
  const int file = memfd_create("page", MFD_CLOEXEC);
  dup3(file, descriptor, O_CLOEXEC);
  close(file);
}

CUresult export_handle(void* out, CUmemGenericAllocationHandle handle,
                       CUmemAllocationHandleType type, unsigned long long) {
  Lock lock;
  say("D export type " + to_string(int{type}));
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    memset(out, 0xcd, sizeof(CUmemFabricHandle));
    memcpy(out, &handle, sizeof handle);
  } else {
    const int descriptor = 900 + static_cast<int>(handle);
    if (state.can_open_shared) open_at(descriptor);
    *static_cast<int*>(out) = descriptor;
  }
  return CUDA_SUCCESS;
}

CUresult import_handle(CUmemGenericAllocationHandle* handle, void*,
                       CUmemAllocationHandleType type) {
  Lock lock;
  say("D import type " + to_string(int{type}));
  *handle = state.next_handle++;
  state.handles[*handle] = 0;
  return CUDA_SUCCESS;
}

CUresult device_get(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}

CUresult get_error_string(CUresult error, const char** text) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "out of memory";
      break;
    case CUDA_ERROR_INVALID_VALUE:
      *text = "invalid argument";
      break;
    case CUDA_ERROR_NOT_PERMITTED:
      *text = "operation not permitted";
      break;
    case CUDA_ERROR_NOT_SUPPORTED:
      *text = "operation not supported";
      break;
    default:
      *text = "error";
  }
  return CUDA_SUCCESS;
}

CUresult not_supported(...) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult succeed(...) { return CUDA_SUCCESS; }

template <class Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

FAKECUDA_API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                          unsigned, unsigned long long,
                                                          cudaDriverEntryPointQueryResult* query) {
  static const std::map<std::string, void*> functions{
      {"cuMemAddressReserve", pointer(address_reserve)},
      {"cuMemAddressFree", pointer(address_free)},
      {"cuMemCreate", pointer(create)},
      {"cuMemRelease", pointer(release)},
      {"cuMemMap", pointer(map)},
      {"cuMemUnmap", pointer(unmap)},
      {"cuMemSetAccess", pointer(set_access)},
      {"cuMemGetAllocationGranularity", pointer(get_granularity)},
      {"cuMemExportToShareableHandle", pointer(export_handle)},
      {"cuMemImportFromShareableHandle", pointer(import_handle)},
      {"cuDeviceGet", pointer(device_get)},
      {"cuDeviceGetAttribute", pointer(device_get_attribute)},
      {"cuGetErrorString", pointer(get_error_string)},
      {"cuStreamWriteValue32", pointer(succeed)},
      {"cuMemsetD32Async", pointer(succeed)},
  };
  auto it = functions.find(symbol);
  *function = it == functions.end() ? pointer(not_supported) : it->second;
  if (query) *query = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
