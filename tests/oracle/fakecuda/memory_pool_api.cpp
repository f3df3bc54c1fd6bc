// SPDX-License-Identifier: MIT OR Apache-2.0
// The part of the simulated runtime that the backend cudaMallocAsync calls.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "device_state.h"

using fakecuda::hex;
using fakecuda::Lock;
using fakecuda::result;
using fakecuda::say;
using fakecuda::state;
using std::to_string;

namespace {

void change_pool_use(int64_t bytes) {
  state.pool_used.set(state.pool_used.current + bytes);
  state.pool_reserved.set(std::max(state.pool_reserved.current, state.pool_used.current));
}

uint64_t pool_attribute(cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolAttrReservedMemCurrent:
      return state.pool_reserved.current;
    case cudaMemPoolAttrReservedMemHigh:
      return state.pool_reserved.high;
    case cudaMemPoolAttrUsedMemCurrent:
      return state.pool_used.current;
    case cudaMemPoolAttrUsedMemHigh:
      return state.pool_used.high;
    default:
      return 0;
  }
}

uint64_t graph_attribute(cudaGraphMemAttributeType attribute) {
  switch (attribute) {
    case cudaGraphMemAttrUsedMemCurrent:
      return state.graph_used.current;
    case cudaGraphMemAttrUsedMemHigh:
      return state.graph_used.high;
    case cudaGraphMemAttrReservedMemCurrent:
      return state.graph_reserved.current;
    case cudaGraphMemAttrReservedMemHigh:
      return state.graph_reserved.high;
    default:
      return 0;
  }
}

constexpr uint64_t kFirstPool = 0x77;

cudaMemPool_t pool_of(int device) {
  return reinterpret_cast<cudaMemPool_t>(kFirstPool + static_cast<uint64_t>(device));
}

int device_of(cudaMemPool_t pool) {
  return static_cast<int>(reinterpret_cast<uint64_t>(pool) - kFirstPool);
}

void reset_high(fakecuda::Watermark& mark) { mark.high = mark.current; }

}  // namespace

FAKECUDA_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  *pool = pool_of(device);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute,
                                                 void* value) {
  Lock lock;
  // The attributes before the release threshold are flags of type int.
  const uint64_t number = attribute < cudaMemPoolAttrReleaseThreshold
                              ? *static_cast<int*>(value)
                              : *static_cast<uint64_t*>(value);
  say("D pool_attribute " + to_string(int{attribute}) + " " + to_string(number));
  if (attribute == cudaMemPoolAttrReservedMemHigh) reset_high(state.pool_reserved);
  if (attribute == cudaMemPoolAttrUsedMemHigh) reset_high(state.pool_used);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute,
                                                 void* value) {
  Lock lock;
  *static_cast<uint64_t*>(value) = pool_attribute(attribute);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* accesses,
                                              size_t) {
  Lock lock;
  const std::string devices =
      " " + to_string(device_of(pool)) + " " + to_string(accesses->location.id);
  say("D pool_access" + (state.devices > 1 ? devices : ""));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t size) {
  Lock lock;
  say("D pool_trim " + to_string(size));
  const uint64_t keep = std::max<uint64_t>(size, state.pool_used.current);
  state.pool_reserved.current = std::min(state.pool_reserved.current, keep);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMallocAsync(void** address, size_t size, cudaStream_t stream) {
  Lock lock;
  const std::string call =
      "D malloc_async " + to_string(size) + " " + hex(reinterpret_cast<uint64_t>(stream)) + " ";
  if (int error = fakecuda::due_error()) {
    say(call + "error " + to_string(error));
    return result(static_cast<cudaError_t>(error));
  }
  if (fakecuda::refused(size)) {
    say(call + "oom");
    return result(cudaErrorMemoryAllocation);
  }
  const uint64_t a = fakecuda::place(size);
  state.mallocs[a] = size;
  state.used += size;
  change_pool_use(static_cast<int64_t>(size));
  *address = reinterpret_cast<void*>(a);
  say(call + hex(a));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  Lock lock;
  auto it = state.mallocs.find(reinterpret_cast<uint64_t>(address));
  if (it == state.mallocs.end()) return result(cudaErrorInvalidValue);
  state.used -= it->second;
  change_pool_use(-static_cast<int64_t>(it->second));
  say("D free_async " + hex(it->first) + " " + hex(reinterpret_cast<uint64_t>(stream)));
  state.ranges.erase(it->first);
  state.mallocs.erase(it);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType attribute,
                                                        void* value) {
  Lock lock;
  *static_cast<uint64_t*>(value) = graph_attribute(attribute);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType attribute,
                                                        void* value) {
  Lock lock;
  say("D graph_attribute " + to_string(int{attribute}) + " " +
      to_string(*static_cast<uint64_t*>(value)));
  if (attribute == cudaGraphMemAttrUsedMemHigh) reset_high(state.graph_used);
  if (attribute == cudaGraphMemAttrReservedMemHigh) reset_high(state.graph_reserved);
  return cudaSuccess;
}
