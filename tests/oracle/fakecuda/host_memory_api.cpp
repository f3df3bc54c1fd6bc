// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned host memory, and what libtorch_cuda.so calls when it is loaded.
#include <cuda_runtime_api.h>

#include <string>

#include "device_state.h"

using fakecuda::hex;
using fakecuda::Lock;
using fakecuda::number;
using fakecuda::result;
using fakecuda::say;
using fakecuda::state;
using std::to_string;

// A machine of 1 TiB: addresses are then found quickly too.
constexpr size_t kMostAtOnce = size_t{1} << 40;

// The memory cannot be used: PyTorch does not look into it.
FAKECUDA_API cudaError_t cudaHostAlloc(void** address, size_t size, unsigned flags) {
  fakecuda::take_time();
  Lock lock;
  const std::string call = "D host_alloc " + to_string(size) + " " + to_string(flags) + " ";
  if (int error = fakecuda::due_error()) {
    say(call + "error " + to_string(error));
    return result(static_cast<cudaError_t>(error));
  }
  if (fakecuda::refused(0) || size > kMostAtOnce) {
    say(call + "oom");
    return result(cudaErrorMemoryAllocation);
  }
  const uint64_t a = fakecuda::place(size);
  state.host_blocks[a] = size;
  *address = reinterpret_cast<void*>(a);
  say(call + hex(a));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaFreeHost(void* address) {
  fakecuda::take_time();
  Lock lock;
  const std::string call = "D host_free " + hex(number(address));
  if (auto error = fakecuda::failed(state.host_free_error, call)) return error;
  if (state.host_blocks.erase(number(address)) == 0) return result(cudaErrorInvalidValue);
  state.ranges.erase(number(address));
  say(call);
  return cudaSuccess;
}

// PyTorch allocates that memory itself, so its address differs from run to run. A line says the
// address that the simulated device would have chosen.
FAKECUDA_API cudaError_t cudaHostRegister(void* address, size_t size, unsigned flags) {
  Lock lock;
  const std::string call = "D host_register " + to_string(size) + " " + to_string(flags) + " ";
  if (int error = fakecuda::due_error()) {
    say(call + "error " + to_string(error));
    return result(static_cast<cudaError_t>(error));
  }
  if (fakecuda::refused(0)) {
    say(call + "oom");
    return result(cudaErrorMemoryAllocation);
  }
  const uint64_t shown = fakecuda::place(size);
  state.registered[number(address)] = {size, shown};
  say(call + hex(shown));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaHostUnregister(void* address) {
  Lock lock;
  const uint64_t shown = fakecuda::shown_address(number(address));
  const std::string call = "D host_unregister " + hex(shown);
  if (auto error = fakecuda::failed(state.host_free_error, call)) return error;
  state.registered.erase(number(address));
  state.ranges.erase(shown);
  say(call);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                  const void* address) {
  Lock lock;
  auto next = state.host_blocks.upper_bound(number(address));
  const bool is_pinned =
      next != state.host_blocks.begin() && (--next)->first + next->second > number(address);
  *attributes = {};
  attributes->type = is_pinned ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                  unsigned) {
  return cudaEventRecord(event, stream);
}

// ---- The code of kernels, which none runs here.

FAKECUDA_API void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
FAKECUDA_API void __cudaRegisterFatBinaryEnd(void**) {}
FAKECUDA_API void __cudaUnregisterFatBinary(void**) {}
FAKECUDA_API void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*,
                                         void*, void*, int*) {}
FAKECUDA_API void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
