// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fake_cuda.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "device/cuda_api.h"

namespace fake_cuda {
namespace {

using namespace cachalot::cuda;

constexpr Result kInvalidValue = 1;
constexpr Result kNotReady = 600;
constexpr Result kOutOfMemory = 2;
constexpr Result kInvalidContext = 201;
constexpr Result kCaptureInvalidated = 901;
constexpr uint64_t kMemory = uint64_t{16} << 30;
constexpr int kMostDevices = 8;

struct State {
  int version = 13000;
  int device_count = 1;
  bool is_divided = false;
  std::map<int, int> attributes;
  std::map<std::string, int> hidden;  // from which version on
  std::string failing;
  Result code = 0;
  uint64_t after = 0;
  Result always = 0;
  std::map<std::string, uint64_t> calls;

  uint64_t next = 0x700000000000;
  uint64_t used = 0;
  std::map<uint64_t, uint64_t> allocations;
  std::map<uint64_t, uint64_t> reservations;
  std::map<uint64_t, uint64_t> handles;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> mappings;  // size, handle
  std::map<uint64_t, uint64_t> events;                         // their streams
  std::set<uint64_t> streams;
  std::map<uint64_t, uint8_t> bytes;  // by their first address
  std::map<int, uint64_t> pool_attributes;
  std::set<void*> pinned;
  std::set<void*> registered;
  std::set<DeviceAddress> opened;
  int context_references[kMostDevices] = {};
  bool holds_work = false;
  std::set<uint64_t> unfinished;  // events
  uint64_t last_recorded_stream = 0;
  std::map<uint64_t, int> captured;
  int capture_mode = 0;
};

State state;
std::recursive_mutex state_lock;
thread_local std::vector<Context> context_stack;

uint64_t fresh(uint64_t size) {
  const uint64_t address = state.next;
  state.next += (size + 0x3fffff) & ~uint64_t{0x1fffff};
  return address;
}

template <class Handle>
uint64_t number(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

Context context_of(int device) {
  return reinterpret_cast<Context>(uint64_t{0xc000} + static_cast<uint64_t>(device));
}

// Whether a call named so may work now; counts it.
Result enter(const char* name, bool needs_context = false) {
  state.calls[name]++;
  if (state.always != 0) return state.always;
  if (state.failing == name) {
    if (state.after == 0) {
      state.failing.clear();
      return state.code;
    }
    state.after--;
  }
  const Context current = context_stack.empty() ? nullptr : context_stack.back();
  if (needs_context && current == nullptr) return kInvalidContext;
  return 0;
}

// Devices have everything that is not said otherwise.
int attribute(int number) {
  const auto found = state.attributes.find(number);
  return found == state.attributes.end() ? 1 : found->second;
}

Result take(uint64_t size) {
  if (size > kMemory - state.used) return kOutOfMemory;
  state.used += size;
  return 0;
}

// A call: its entry, then what it does.
template <class Body>
Result call(const char* name, bool needs_context, Body body) {
  const std::lock_guard guard(state_lock);
  const Result code = enter(name, needs_context);
  return code != 0 ? code : body();
}

Result drop(std::map<uint64_t, uint64_t>& sizes, uint64_t key, bool is_memory) {
  const auto found = sizes.find(key);
  if (found == sizes.end()) return kInvalidValue;
  if (is_memory) state.used -= found->second;
  sizes.erase(found);
  return 0;
}

// ---- The driver's functions. Those without a context are marked.

Result cuInit(unsigned) {
  return call("cuInit", false, [] { return 0; });
}
Result cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", false, [&] { return *count = state.device_count, 0; });
}
Result cuDeviceGet(DeviceOrdinal* ordinal, int device) {
  return call("cuDeviceGet", false, [&] { return *ordinal = device, 0; });
}
Result cuDeviceGetAttribute(int* value, int number, DeviceOrdinal) {
  return call("cuDeviceGetAttribute", false, [&] { return *value = attribute(number), 0; });
}
Result cuDeviceGetPCIBusId(char* id, int size, DeviceOrdinal) {
  return call("cuDeviceGetPCIBusId", false, [&] {
    std::strncpy(id, "0000:1a:00.0", static_cast<size_t>(size));
    return 0;
  });
}
void write_uuid(Uuid* uuid, int first) {
  for (size_t i = 0; i < sizeof uuid->bytes; i++)
    uuid->bytes[i] = static_cast<char>(first + static_cast<int>(i));
}
// The bytes 0xf0 and more show whether a sign gets into the text.
Result cuDeviceGetUuid(Uuid* uuid, DeviceOrdinal) {
  return call("cuDeviceGetUuid", false, [&] { return write_uuid(uuid, 0xf0), 0; });
}
Result cuDeviceGetUuid_v2(Uuid* uuid, DeviceOrdinal) {
  return call("cuDeviceGetUuid_v2", false,
              [&] { return write_uuid(uuid, state.is_divided ? 0x20 : 0xf0), 0; });
}
Result cuDeviceTotalMem(size_t* total, DeviceOrdinal) {
  return call("cuDeviceTotalMem", false, [&] { return *total = kMemory, 0; });
}
Result cuDevicePrimaryCtxRetain(Context* context, DeviceOrdinal device) {
  return call("cuDevicePrimaryCtxRetain", false, [&] {
    state.context_references[device]++;
    *context = context_of(device);
    return 0;
  });
}
Result cuDevicePrimaryCtxRelease(DeviceOrdinal device) {
  return call("cuDevicePrimaryCtxRelease", false,
              [&] { return state.context_references[device]--, 0; });
}
Result cuCtxGetCurrent(Context* context) {
  return call("cuCtxGetCurrent", false, [&] {
    *context = context_stack.empty() ? nullptr : context_stack.back();
    return 0;
  });
}
Result cuCtxPushCurrent(Context context) {
  return call("cuCtxPushCurrent", false, [&] { return context_stack.push_back(context), 0; });
}
Result cuCtxPopCurrent(Context* context) {
  return call("cuCtxPopCurrent", true, [&] {
    *context = context_stack.back();
    context_stack.pop_back();
    return 0;
  });
}
Result cuCtxSynchronize() {
  return call("cuCtxSynchronize", true, [] { return state.unfinished.clear(), 0; });
}
Result cuCtxEnablePeerAccess(Context, unsigned) {
  return call("cuCtxEnablePeerAccess", true, [] { return 0; });
}
Result cuGetErrorString(Result code, const char** text) {
  *text = code == kOutOfMemory ? "out of memory"
          : code == 100        ? "no CUDA-capable device is detected"
          : code == 700        ? "an illegal memory access was encountered"
                               : "some error";
  return 0;
}
Result cuMemGetInfo(size_t* available, size_t* total) {
  return call("cuMemGetInfo", true, [&] {
    *available = kMemory - state.used;
    *total = kMemory;
    return 0;
  });
}
Result cuMemAlloc(DeviceAddress* address, size_t size) {
  return call("cuMemAlloc", true, [&] {
    if (const Result code = take(size)) return code;
    state.allocations[*address = fresh(size)] = size;
    return 0;
  });
}
Result cuMemFree(DeviceAddress address) {
  return call("cuMemFree", true, [&] { return drop(state.allocations, address, true); });
}
Result cuMemsetD8Async(DeviceAddress address, unsigned char byte, size_t, StreamHandle) {
  return call("cuMemsetD8Async", true, [&] { return state.bytes[address] = byte, 0; });
}
Result cuMemcpyDtoHAsync(void* out, DeviceAddress address, size_t size, StreamHandle) {
  return call("cuMemcpyDtoHAsync", true, [&] {
    const auto found = state.bytes.find(address);
    std::memset(out, found == state.bytes.end() ? 0 : found->second, size);
    return 0;
  });
}
Result cuMemcpyAsync(DeviceAddress to, DeviceAddress from, size_t, StreamHandle) {
  return call("cuMemcpyAsync", true, [&] { return state.bytes[to] = state.bytes[from], 0; });
}
Result cuMemcpyPeerAsync(DeviceAddress to, Context, DeviceAddress from, Context, size_t,
                         StreamHandle) {
  return call("cuMemcpyPeerAsync", true, [&] { return state.bytes[to] = state.bytes[from], 0; });
}
Result cuEventCreate(EventHandle* event, unsigned flags) {
  return call("cuEventCreate", true, [&] {
    if (flags != kEventDisableTiming) return kInvalidValue;
    const uint64_t made = fresh(1);
    state.events[made] = 0;
    *event = reinterpret_cast<EventHandle>(made);
    return 0;
  });
}
Result cuEventDestroy(EventHandle event) {
  return call("cuEventDestroy", true, [&] { return drop(state.events, number(event), false); });
}
Result cuEventRecord(EventHandle event, StreamHandle stream) {
  return call("cuEventRecord", true, [&] {
    state.last_recorded_stream = number(stream);
    if (state.holds_work) state.unfinished.insert(number(event));
    return 0;
  });
}
Result cuCtxRecordEvent(Context context, EventHandle event) {
  return call("cuCtxRecordEvent", true, [&] {
    if (!state.captured.empty()) return kCaptureInvalidated;
    if (context != context_stack.back() || state.events.count(number(event)) == 0)
      return kInvalidValue;
    if (state.holds_work) state.unfinished.insert(number(event));
    return 0;
  });
}
Result cuEventQuery(EventHandle event) {
  return call("cuEventQuery", true,
              [&] { return state.unfinished.count(number(event)) != 0 ? kNotReady : 0; });
}
Result cuEventSynchronize(EventHandle event) {
  return call("cuEventSynchronize", true, [&] { return state.unfinished.erase(number(event)), 0; });
}
Result cuStreamCreate(StreamHandle* stream, unsigned flags) {
  return call("cuStreamCreate", true, [&] {
    if (flags != kStreamNonBlocking) return kInvalidValue;
    const uint64_t made = fresh(1);
    state.streams.insert(made);
    *stream = reinterpret_cast<StreamHandle>(made);
    return 0;
  });
}
Result cuStreamDestroy(StreamHandle stream) {
  return call("cuStreamDestroy", true, [&] { return state.streams.erase(number(stream)), 0; });
}
Result cuStreamSynchronize(StreamHandle) {
  return call("cuStreamSynchronize", true, [] { return state.unfinished.clear(), 0; });
}
Result cuStreamWaitEvent(StreamHandle, EventHandle, unsigned) {
  return call("cuStreamWaitEvent", true, [] { return 0; });
}

Result answer_capture(StreamHandle stream, int* status, uint64_t* id, Graph* graph,
                      const GraphNode** nodes, size_t* count) {
  static const std::vector<GraphNode> made(16, reinterpret_cast<GraphNode>(0x9000));
  const auto found = state.captured.find(number(stream));
  *status = found == state.captured.end() ? 0 : kCaptureStatusActive;
  if (*status == 0) return 0;
  *id = 7;
  *graph = reinterpret_cast<Graph>(0x70);
  *nodes = made.data();
  *count = static_cast<size_t>(found->second);
  return 0;
}
Result cuStreamGetCaptureInfo(StreamHandle stream, int* status, uint64_t* id, Graph* graph,
                              const GraphNode** nodes, size_t* count) {
  return call("cuStreamGetCaptureInfo", true,
              [&] { return answer_capture(stream, status, id, graph, nodes, count); });
}
Result cuStreamGetCaptureInfo_v3(StreamHandle stream, int* status, uint64_t* id, Graph* graph,
                                 const GraphNode** nodes, const GraphEdge** edges, size_t* count) {
  return call("cuStreamGetCaptureInfo_v3", true, [&] {
    *edges = nullptr;
    return answer_capture(stream, status, id, graph, nodes, count);
  });
}
// Every node has two before it.
Result cuGraphNodeGetDependencies(GraphNode, GraphNode* nodes, size_t* count) {
  return call("cuGraphNodeGetDependencies", true, [&] {
    for (size_t i = 0; nodes != nullptr && i < 2 && i < *count; i++)
      nodes[i] = reinterpret_cast<GraphNode>(0x9100 + 0x10 * i);
    *count = 2;
    return 0;
  });
}
Result cuGraphNodeGetDependencies_v2(GraphNode node, GraphNode* nodes, GraphEdge* edges,
                                     size_t* count) {
  if (nodes != nullptr && edges == nullptr) return 402;  // the answer would lose something
  return cuGraphNodeGetDependencies(node, nodes, count);
}
Result cuThreadExchangeStreamCaptureMode(int* mode) {
  return call("cuThreadExchangeStreamCaptureMode", false,
              [&] { return std::swap(*mode, state.capture_mode), 0; });
}

Result cuMemAddressReserve(DeviceAddress* address, size_t size, size_t, DeviceAddress, uint64_t) {
  return call("cuMemAddressReserve", true,
              [&] { return state.reservations[*address = fresh(size)] = size, 0; });
}
Result cuMemAddressFree(DeviceAddress address, size_t) {
  return call("cuMemAddressFree", true, [&] { return drop(state.reservations, address, false); });
}
Result cuMemCreate(AllocationHandle* handle, size_t size, const AllocationProperties* properties,
                   uint64_t) {
  return call("cuMemCreate", true, [&] {
    if (properties->handle_types == 8) return 800;  // no fabric here
    if (properties->flags.gpu_direct_rdma_capable != 0 && attribute(110) == 0) return 801;
    if (const Result code = take(size)) return code;
    state.handles[*handle = fresh(1)] = size;
    return 0;
  });
}
Result cuMemRelease(AllocationHandle handle) {
  return call("cuMemRelease", true, [&] { return drop(state.handles, handle, true); });
}
Result cuMemMap(DeviceAddress address, size_t size, size_t, AllocationHandle handle, uint64_t) {
  return call("cuMemMap", true, [&] { return state.mappings[address] = {size, handle}, 0; });
}
Result cuMemUnmap(DeviceAddress address, size_t size) {
  return call("cuMemUnmap", true, [&] {
    const auto found = state.mappings.find(address);
    if (found == state.mappings.end() || found->second.first != size) return kInvalidValue;
    state.mappings.erase(found);
    return 0;
  });
}
Result cuMemSetAccess(DeviceAddress, size_t, const AccessDescriptor* access, size_t) {
  return call("cuMemSetAccess", true,
              [&] { return access->flags == kAccessReadWrite ? 0 : kInvalidValue; });
}
Result cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties*, int) {
  return call("cuMemGetAllocationGranularity", true, [&] { return *bytes = size_t{2} << 20, 0; });
}
Result cuMemExportToShareableHandle(void* out, AllocationHandle, int, uint64_t) {
  return call("cuMemExportToShareableHandle", true, [&] {
    const int descriptor = memfd_create("page", MFD_CLOEXEC);  // its owner closes it
    std::memcpy(out, &descriptor, sizeof descriptor);
    return 0;
  });
}
Result cuMemImportFromShareableHandle(AllocationHandle* handle, void*, int) {
  return call("cuMemImportFromShareableHandle", true,
              [&] { return state.handles[*handle = fresh(1)] = 0, 0; });
}

Result cuMemAllocAsync(DeviceAddress* address, size_t size, StreamHandle) {
  return call("cuMemAllocAsync", true, [&] {
    if (const Result code = take(size)) return code;
    state.allocations[*address = fresh(size)] = size;
    return 0;
  });
}
Result cuMemFreeAsync(DeviceAddress address, StreamHandle) {
  return call("cuMemFreeAsync", true, [&] { return drop(state.allocations, address, true); });
}
Result cuDeviceGetDefaultMemPool(MemoryPool* pool, DeviceOrdinal) {
  return call("cuDeviceGetDefaultMemPool", false,
              [&] { return *pool = reinterpret_cast<MemoryPool>(0xb000), 0; });
}
Result cuMemPoolTrimTo(MemoryPool, size_t) {
  return call("cuMemPoolTrimTo", true, [] { return 0; });
}
Result cuMemPoolGetAttribute(MemoryPool, int attribute, void* out) {
  return call("cuMemPoolGetAttribute", true, [&] {
    std::memcpy(out, &state.pool_attributes[attribute], attribute <= 3 ? 4 : 8);
    return 0;
  });
}
Result cuMemPoolSetAttribute(MemoryPool, int attribute, void* in) {
  return call("cuMemPoolSetAttribute", true, [&] {
    state.pool_attributes[attribute] = 0;
    std::memcpy(&state.pool_attributes[attribute], in, attribute <= 3 ? 4 : 8);
    return 0;
  });
}
Result cuMemPoolSetAccess(MemoryPool, const AccessDescriptor*, size_t) {
  return call("cuMemPoolSetAccess", true, [] { return 0; });
}
Result cuDeviceGetGraphMemAttribute(DeviceOrdinal, int, void* out) {
  return call("cuDeviceGetGraphMemAttribute", false, [&] {
    std::memset(out, 0, 8);
    return 0;
  });
}
Result cuDeviceSetGraphMemAttribute(DeviceOrdinal, int, void*) {
  return call("cuDeviceSetGraphMemAttribute", false, [] { return 0; });
}

// ---- Pinned memory, which a program may touch

Result cuMemHostAlloc(void** memory, size_t size, unsigned) {
  return call("cuMemHostAlloc", true, [&] {
    *memory = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (*memory == nullptr) return kOutOfMemory;
    state.pinned.insert(*memory);
    return 0;
  });
}
Result cuMemFreeHost(void* memory) {
  return call("cuMemFreeHost", true, [&] {
    if (state.pinned.erase(memory) == 0) return kInvalidValue;
    std::free(memory);
    return 0;
  });
}
Result cuMemHostRegister(void* memory, size_t, unsigned) {
  return call("cuMemHostRegister", true,
              [&] { return state.registered.insert(memory).second ? 0 : kInvalidValue; });
}
Result cuMemHostUnregister(void* memory) {
  return call("cuMemHostUnregister", true,
              [&] { return state.registered.erase(memory) == 1 ? 0 : kInvalidValue; });
}

// ---- Segments between processes: a handle is the address of its segment, which lies elsewhere for whoever opens it

constexpr DeviceAddress kOpenedAt = 0x100000000000;

Result cuIpcGetMemHandle(IpcHandle* handle, DeviceAddress address) {
  return call("cuIpcGetMemHandle", true, [&] {
    *handle = {};
    std::memcpy(handle->reserved, &address, sizeof address);
    return 0;
  });
}
Result cuIpcOpenMemHandle(DeviceAddress* address, IpcHandle handle, unsigned flags) {
  return call("cuIpcOpenMemHandle", true, [&] {
    DeviceAddress shared = 0;
    std::memcpy(&shared, handle.reserved, sizeof shared);
    if (flags != kIpcLazyPeerAccess || !state.opened.insert(shared + kOpenedAt).second)
      return kInvalidValue;
    *address = shared + kOpenedAt;
    return 0;
  });
}
Result cuIpcCloseMemHandle(DeviceAddress address) {
  return call("cuIpcCloseMemHandle", true,
              [&] { return state.opened.erase(address) == 1 ? 0 : kInvalidValue; });
}

struct Symbol {
  const char* name;
  int version;
  void* function;
};

const std::vector<Symbol>& symbols() {
  // clang-format off
#define CACHALOT_SYMBOL(name, version, ...) {#name, version, reinterpret_cast<void*>(&name)},
  // clang-format on
  static const std::vector<Symbol> all = {
      CACHALOT_CUDA_FUNCTIONS(CACHALOT_SYMBOL) CACHALOT_CUDA_VIRTUAL_MEMORY(CACHALOT_SYMBOL)
          CACHALOT_CUDA_MEMORY_POOLS(CACHALOT_SYMBOL) CACHALOT_CUDA_CONTEXT_EVENTS(CACHALOT_SYMBOL)
              CACHALOT_CUDA_HOST_MEMORY(CACHALOT_SYMBOL) CACHALOT_CUDA_IPC(CACHALOT_SYMBOL)
                  CACHALOT_CUDA_GPU_UUID(CACHALOT_SYMBOL){
                      "cuStreamGetCaptureInfo", 12030,
                      reinterpret_cast<void*>(&cuStreamGetCaptureInfo_v3)},
      {"cuDeviceGetUuid", 11040, reinterpret_cast<void*>(&cuDeviceGetUuid_v2)},
      {"cuGraphNodeGetDependencies", 12030,
       reinterpret_cast<void*>(&cuGraphNodeGetDependencies_v2)}};
#undef CACHALOT_SYMBOL
  return all;
}

// The newest form that the asked version had.
void* find(const char* name, int version) {
  const auto hidden = state.hidden.find(name);
  const Symbol* found = nullptr;
  for (const Symbol& symbol : symbols()) {
    const bool is_hidden = hidden != state.hidden.end() && symbol.version >= hidden->second;
    const bool is_known = symbol.version <= version && symbol.version <= state.version;
    if (std::strcmp(symbol.name, name) != 0 || is_hidden || !is_known) continue;
    if (found == nullptr || found->version < symbol.version) found = &symbol;
  }
  return found == nullptr ? nullptr : found->function;
}

}  // namespace

void reset() {
  const std::lock_guard guard(state_lock);
  // What a driver that refused to take it back was left with.
  for (void* const memory : state.pinned) std::free(memory);
  state = {};
  context_stack.clear();
}

void set_version(int version) { state.version = version; }
void divide() { state.is_divided = true; }
void set_device_count(int count) { state.device_count = count; }
void set_attribute(int attribute, int value) { state.attributes[attribute] = value; }
void hide(const std::string& function, int from_version) { state.hidden[function] = from_version; }

void fail(const std::string& function, int code, uint64_t after) {
  const std::lock_guard guard(state_lock);
  state.failing = code == 0 ? "" : function;
  state.code = code;
  state.after = after;
}

void fail_always(int code) { state.always = code; }
uint64_t calls(const std::string& function) { return state.calls[function]; }

std::string leftovers() {
  std::string text;
  const auto add = [&](size_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(state.allocations.size(), "allocations");
  add(state.reservations.size(), "reservations");
  add(state.handles.size(), "pages");
  add(state.mappings.size(), "mappings");
  add(state.events.size(), "events");
  add(state.streams.size(), "streams");
  add(state.pinned.size(), "pinned blocks");
  add(state.registered.size(), "registered blocks");
  for (const int references : state.context_references)
    add(static_cast<size_t>(references), "context references");
  return text;
}

int context_references(int device) { return state.context_references[device]; }
void* current_context() { return context_stack.empty() ? nullptr : context_stack.back(); }
void set_current_context(void* context) {
  context_stack.assign(context == nullptr ? 0 : 1, static_cast<Context>(context));
}
void* primary_context(int device) { return context_of(device); }
void hold_work(bool hold) { state.holds_work = hold; }
uint64_t last_recorded_stream() { return state.last_recorded_stream; }
void capture(uint64_t stream, int nodes) {
  state.captured[stream] = nodes;
  if (nodes < 0) state.captured.erase(stream);
}
int capture_mode() { return state.capture_mode; }
uint8_t byte_at(uint64_t address) { return state.bytes[address]; }

}  // namespace fake_cuda

using cachalot::cuda::Result;

extern "C" {

__attribute__((visibility("default"))) Result cuDriverGetVersion(int* version) {
  *version = fake_cuda::state.version;
  return 0;
}

__attribute__((visibility("default"))) Result cuGetProcAddress(const char* name, void** function,
                                                               int version, uint64_t flags) {
  *function =
      flags == cachalot::cuda::kProcAddressLegacyStream ? fake_cuda::find(name, version) : nullptr;
  return *function != nullptr ? 0 : 500;
}

__attribute__((visibility("default"))) Result cuGetProcAddress_v2(const char* name, void** function,
                                                                  int version, uint64_t flags,
                                                                  int* status) {
  *status = 0;
  return cuGetProcAddress(name, function, version, flags);
}
}
