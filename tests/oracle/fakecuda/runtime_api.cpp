// SPDX-License-Identifier: MIT OR Apache-2.0
// A simulated CUDA 13 runtime: enough of libcudart for libc10_cuda.so to run without a GPU.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <utility>

#include "device_state.h"

using fakecuda::hex;
using fakecuda::Lock;
using fakecuda::number;
using fakecuda::result;
using fakecuda::say;
using fakecuda::state;
using std::to_string;

namespace {

fakecuda::Stream& stream_of(cudaStream_t stream) { return state.streams[number(stream)]; }

bool is_done(const fakecuda::Event& event) {
  return state.streams[event.stream].completed >= event.mark;
}

cudaStreamCaptureStatus capture_status(const fakecuda::Stream& stream) {
  return stream.capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
}

}  // namespace

// ---- Memory

FAKECUDA_API cudaError_t cudaMalloc(void** address, size_t size) {
  fakecuda::take_time();
  Lock lock;
  const std::string call = "D malloc " + to_string(size) + " ";
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
  *address = reinterpret_cast<void*>(a);
  say(call + hex(a));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaFree(void* address) {
  fakecuda::take_time();
  Lock lock;
  if (!address) return cudaSuccess;
  auto it = state.mallocs.find(number(address));
  if (it == state.mallocs.end()) return result(cudaErrorInvalidValue);
  state.used -= it->second;
  say("D free " + hex(it->first));
  state.ranges.erase(it->first);
  state.mallocs.erase(it);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Lock lock;
  *free = state.total - state.used;
  *total = state.total;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind) {
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) {
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaMemcpyPeerAsync(void*, int, const void*, int, size_t, cudaStream_t) {
  return cudaSuccess;
}

// ---- Devices

FAKECUDA_API cudaError_t cudaGetDeviceCount(int* count) {
  *count = state.devices;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaGetDevice(int* device) {
  *device = state.device;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaSetDevice(int device) {
  state.device = device;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  memset(properties, 0, sizeof *properties);
  strcpy(properties->name, "Simulated GPU");
  properties->totalGlobalMem = state.total;
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaDeviceSynchronize() {
  Lock lock;
  say("D device_sync");
  fakecuda::finish_all();
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  Lock lock;
  say("D peer_access " + to_string(state.device) + " " + to_string(peer));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  Lock lock;
  say("D ipc_handle " + hex(number(address)));
  memset(handle, 0xab, sizeof *handle);
  memcpy(handle, &address, sizeof address);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned) {
  Lock lock;
  uint64_t shared;
  memcpy(&shared, &handle, sizeof shared);
  const auto segment = state.mallocs.find(shared);
  if (!state.can_open_shared || segment == state.mallocs.end())
    return result(cudaErrorNotSupported);
  const uint64_t a = fakecuda::place(segment->second);
  say("D ipc_open " + hex(a));
  *address = reinterpret_cast<void*>(a);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaIpcCloseMemHandle(void* address) {
  Lock lock;
  say("D ipc_close " + hex(number(address)));
  state.ranges.erase(number(address));
  return cudaSuccess;
}

// ---- Streams and captures

FAKECUDA_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  static uint64_t next = 0x500000;
  next += 0x1000;
  *stream = reinterpret_cast<cudaStream_t>(next);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Lock lock;
  const fakecuda::Stream& s = stream_of(stream);
  return result(s.completed >= s.submitted ? cudaSuccess : cudaErrorNotReady);
}

FAKECUDA_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock;
  say("D stream_sync " + hex(number(stream)));
  fakecuda::finish_work(number(stream));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) {
  Lock lock;
  fakecuda::say_if_shown("waits", "D stream_wait " + hex(number(stream)));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                               cudaStreamCaptureStatus* status) {
  Lock lock;
  *status = capture_status(stream_of(stream));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                                  cudaStreamCaptureStatus* status,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** ends,
                                                  const cudaGraphEdgeData** edges, size_t* count) {
  Lock lock;
  const fakecuda::Stream& s = stream_of(stream);
  *status = capture_status(s);
  if (id) *id = s.capture;
  if (graph) *graph = reinterpret_cast<cudaGraph_t>(s.capture << 4);
  if (ends) *ends = s.ends.data();
  if (edges) *edges = nullptr;
  if (count) *count = s.ends.size();
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  Lock lock;
  static cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
  std::swap(*mode, now);
  fakecuda::say_if_shown("capture_mode", "D capture_mode " + to_string(now));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* out,
                                                      cudaGraphEdgeData*, size_t* count) {
  Lock lock;
  const auto& dependencies = state.nodes[number(node)];
  if (out) {
    for (size_t i = 0; i < dependencies.size() && i < *count; i++) out[i] = dependencies[i];
  }
  *count = dependencies.size();
  return cudaSuccess;
}

// ---- Events

FAKECUDA_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  Lock lock;
  const std::string call = "D event_create";
  if (auto error = fakecuda::failed(state.event_error, call)) return error;
  const uint64_t handle = state.next_event++ << 8;
  *event = reinterpret_cast<cudaEvent_t>(handle);
  state.events[handle] = {};
  say(call);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Lock lock;
  state.events.erase(number(event));
  say("D event_destroy");
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock;
  const std::string call = "D event_record " + hex(number(stream));
  if (auto error = fakecuda::failed(state.event_error, call)) return error;
  state.events[number(event)] = {number(stream), stream_of(stream).submitted};
  say(call);
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock;
  const fakecuda::Event& e = state.events[number(event)];
  const std::string call = "D event_query " + hex(e.stream);
  if (auto error = fakecuda::failed(state.event_error, call)) return error;
  fakecuda::say_if_shown("query", call);
  return result(is_done(e) ? cudaSuccess : cudaErrorNotReady);
}

FAKECUDA_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock;
  const fakecuda::Event& e = state.events[number(event)];
  if (!is_done(e)) state.streams[e.stream].completed = e.mark;
  say("D event_sync " + hex(e.stream));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;
  return cudaSuccess;
}

// ---- Errors

FAKECUDA_API cudaError_t cudaGetLastError() { return std::exchange(state.last_error, cudaSuccess); }

FAKECUDA_API const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}

FAKECUDA_API const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidValue:
      return "invalid argument";
    default:
      return "error";
  }
}
