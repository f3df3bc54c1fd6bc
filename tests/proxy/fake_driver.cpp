// SPDX-License-Identifier: MIT OR Apache-2.0
// A libcuda.so.1 for machines without a GPU, for programs: it exports functions under the driver's names, as the real
// one does, and answers cuGetProcAddress by what the real one gives (driver_symbols.inc). Memory is addresses only.
#include "fake_driver.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "entry_points.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION 13000
#endif

using namespace cachalot::proxy;

namespace {

constexpr Result kOutOfMemory = 2;
constexpr Result kInvalidContext = 201;
constexpr Result kInvalidHandle = 400;
constexpr Result kCaptureUnsupported = 900;
constexpr Result kCaptureInvalidated = 901;
constexpr uint64_t kMemory = uint64_t{16} << 30;
constexpr uint64_t kAddresses = uint64_t{1} << 36;
constexpr Result kNotReady = 600;

struct Allocation {
  uint64_t size;
  uint64_t context;  // its number
  int device;
  bool is_waited_for;
};

// Memory that is mapped by its handle. It is there while the program has it or it is mapped.
struct Physical {
  uint64_t size = 0;
  int device = 0;
  int references = 1;
  int mappings = 0;
};

struct ContextObject_ {
  uint64_t id = 0;
  int device = 0;
  bool is_green = false;  // its memory is the primary one's
};

enum CaptureMode { kGlobal, kThreadLocal, kRelaxed };

struct Capture {
  int mode;
  std::thread::id thread = std::this_thread::get_id();  // that has begun it
  bool is_broken = false;
};
thread_local int capture_mode = kGlobal;  // what calls of the thread may break

// Blocks can be read and written. A page that is not touched takes nothing. Valgrind has less room.
uint64_t reserve_addresses() {
  for (const uint64_t size : {kAddresses, kAddresses >> 4}) {
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    constexpr uint64_t kAligned = uint64_t{1} << 30;
    if (memory != MAP_FAILED)
      return (reinterpret_cast<uint64_t>(memory) + kAligned - 1) / kAligned * kAligned;
  }
  std::abort();
}

struct State {
  std::map<uint64_t, Allocation> memory;  // by address: of the device and of the host, arrays
  std::map<uint64_t, std::vector<uint64_t>> freed;  // addresses by size, the last first
  std::map<AllocationHandle, Physical> handles;
  std::map<uint64_t, std::pair<uint64_t, AllocationHandle>> mappings;
  std::map<uint64_t, uint64_t> ranges;                     // that are reserved, and their sizes
  std::map<uint64_t, std::vector<uint64_t>> freed_ranges;  // addresses by size, the last first
  std::map<uint64_t, ContextObject_> contexts;             // by handle
  std::map<uint64_t, Capture> captures;                    // by stream
  std::map<StreamHandle, Context> streams;                 // and their contexts
  std::map<std::string, uint64_t> calls;
  std::map<std::string, Result> failing;
  std::map<std::string, void (*)()> before;
  std::string order;
  uint64_t next = reserve_addresses();
  uint64_t next_id = 1;
  std::map<int, uint64_t> used;  // bytes by device
  uint64_t pool_reserved = 0;
  uint64_t pool_used = 0;
  int primary_references[2] = {};
  // Work is done in the order in which it was queued, on whichever stream.
  uint64_t queued = 0;
  uint64_t finished = 0;
  std::map<EventHandle, uint64_t> events;          // how much was queued when they were recorded
  std::map<EventHandle, uint64_t> event_contexts;  // of those that exist, by the context's id
  std::set<EventHandle> ended_events;  // whose context has ended: CUDA may end the process at one
  bool events_are_early = false;
};

State& state() {
  static State* const all = new State;
  return *all;
}
std::mutex mutex;
std::condition_variable work_finished;
// Has no destructor: exit handlers call the driver.
class ContextStack {
 public:
  bool empty() const { return size_ == 0; }
  Context back() const { return contexts_[size_ - 1]; }
  void push_back(Context context) {
    if (size_ == std::size(contexts_)) std::abort();
    contexts_[size_++] = context;
  }
  void pop_back() { size_--; }
  void assign(size_t count, Context context) {
    size_ = 0;
    for (size_t i = 0; i < count; i++) push_back(context);
  }

 private:
  Context contexts_[256];
  size_t size_;
};
thread_local ContextStack stack;  // zero at the begin of a thread

uint64_t number(const void* handle) { return reinterpret_cast<uint64_t>(handle); }
uint64_t primary_handle(int device) { return 0xc000 + static_cast<uint64_t>(device); }

// Counts the call. What it returns ends the call, if it is not 0.
Result enter(const char* name, bool needs_context) {
  void (*act)() = nullptr;
  {
    const std::lock_guard guard(mutex);
    state().calls[name]++;
    const auto found = state().before.find(name);
    if (found != state().before.end()) {
      act = found->second;
      state().before.erase(found);
    }
  }
  if (act != nullptr) act();
  const std::lock_guard guard(mutex);
  const auto failing = state().failing.find(name);
  if (failing != state().failing.end()) {
    const Result code = failing->second;
    state().failing.erase(failing);
    return code;
  }
  return needs_context && stack.empty() ? kInvalidContext : 0;
}

template <class Body>
Result call(const char* name, Body body, bool needs_context = true) {
  if (const Result code = enter(name, needs_context)) return code;
  std::unique_lock lock(mutex);
  return body(lock);
}
#define CALL(...) call(__func__, [&]([[maybe_unused]] auto& lock) -> Result { __VA_ARGS__ })
#define CALL_WITHOUT_CONTEXT(...) \
  call(                           \
      __func__, [&]([[maybe_unused]] auto& lock) -> Result { __VA_ARGS__ }, false)

void note(const char* name) {
  state().order += std::string(state().order.empty() ? "" : " ") + name;
}

void wait_until(std::unique_lock<std::mutex>& lock, uint64_t count) {
  work_finished.wait(lock, [&] { return state().finished >= count; });
}

void wait_for_work(std::unique_lock<std::mutex>& lock, const char* name) {
  note(name);
  wait_until(lock, state().queued);
}

ContextObject_ current_context() {
  const auto found = state().contexts.find(number(stack.back()));
  if (found == state().contexts.end()) return {};
  return found->second.is_green ? state().contexts[primary_handle(found->second.device)]
                                : found->second;
}

bool has_room(int device, uint64_t size) { return size <= kMemory - state().used[device]; }

uint64_t fresh(uint64_t size) {
  auto& freed = state().freed[size];
  if (!freed.empty()) {
    const uint64_t address = freed.back();
    freed.pop_back();
    return address;
  }
  const uint64_t address = state().next;
  // With room behind. Small ones lie closer, since there can be very many.
  const uint64_t step = size <= 0x10000 ? 0x10000 : 0x200000;
  state().next += (size + 2 * step - 1) / step * step;
  return address;
}

// Aligned as the driver's.
uint64_t fresh_range(uint64_t size) {
  auto& freed = state().freed_ranges[size];
  if (!freed.empty()) {
    const uint64_t address = freed.back();
    freed.pop_back();
    return address;
  }
  constexpr uint64_t kGranularity = uint64_t{2} << 20;
  const uint64_t address = (state().next + kGranularity - 1) / kGranularity * kGranularity;
  state().next = address + size;
  return address;
}

template <class Out>
Result take(Out* out, uint64_t size, bool is_waited_for = false) {
  if (size == 0 || out == nullptr) return kInvalidValue;
  const ContextObject_ context = current_context();
  if (!has_room(context.device, size)) return kOutOfMemory;
  state().used[context.device] += size;
  const uint64_t address = fresh(size);
  state().memory[address] = {size, context.id, context.device, is_waited_for};
  if constexpr (std::is_pointer_v<Out>)
    *out = reinterpret_cast<Out>(address);
  else
    *out = address;
  return 0;
}

Result drop(uint64_t address) {
  const auto found = state().memory.find(address);
  if (found == state().memory.end()) return address == 0 ? 0 : kInvalidValue;
  state().used[found->second.device] -= found->second.size;
  state().freed[found->second.size].push_back(address);
  // What is handed out is zero.
  if (found->second.size > 1)
    madvise(reinterpret_cast<void*>(address), found->second.size, MADV_DONTNEED);
  state().memory.erase(found);
  return 0;
}

void drop_if_gone(AllocationHandle handle) {
  const auto found = state().handles.find(handle);
  if (found->second.references > 0 || found->second.mappings > 0) return;
  state().used[found->second.device] -= found->second.size;
  state().handles.erase(found);
}

bool has_mapping(uint64_t address, uint64_t size) {
  auto at = state().mappings.lower_bound(address);
  if (at != state().mappings.end() && at->first < address + size) return true;
  return at != state().mappings.begin() && (--at)->first + at->second.first > address;
}

void unmap(const std::pair<uint64_t, AllocationHandle>& mapping) {
  state().handles.at(mapping.second).mappings--;
  drop_if_gone(mapping.second);
}

void drop_all_of(uint64_t context) {
  std::vector<uint64_t> addresses;
  for (const auto& [address, allocation] : state().memory)
    if (allocation.context == context) addresses.push_back(address);
  for (const uint64_t address : addresses) drop(address);
  std::erase_if(state().event_contexts, [&](const auto& row) {
    if (row.second == context) state().ended_events.insert(row.first);
    return row.second == context;
  });
}

// A wait for a context, or an event of one, breaks all captures.
Result break_captures() {
  if (state().captures.empty()) return 0;
  for (auto& [stream, capture] : state().captures) capture.is_broken = true;
  return kCaptureUnsupported;
}

// A call that may wait for the device breaks captures of this thread, and those that forbid it to all threads
// (docs/gpu.md, "What ends a capture").
Result break_forbidding_captures() {
  Result result = 0;
  for (auto& [stream, capture] : state().captures) {
    const bool is_own = capture.thread == std::this_thread::get_id();
    const bool forbids =
        is_own ? capture.mode != kRelaxed : capture.mode == kGlobal && capture_mode == kGlobal;
    if (!forbids || capture_mode == kRelaxed) continue;
    capture.is_broken = true;
    result = kCaptureUnsupported;
  }
  return result;
}

// A per-thread stream by its thread, which is 0 or 2 there.
uint64_t capture_key(StreamHandle stream, bool is_per_thread_form) {
  const uint64_t handle = number(stream);
  if (handle != 2 && !(handle == 0 && is_per_thread_form)) return handle;
  return (uint64_t{1} << 63) + std::hash<std::thread::id>()(std::this_thread::get_id());
}

Result begin(StreamHandle stream, bool is_per_thread_form, int mode) {
  const uint64_t key = capture_key(stream, is_per_thread_form);
  return state().captures.try_emplace(key, Capture{mode}).second ? 0 : kInvalidValue;
}

Result end(StreamHandle stream, Graph* out, bool is_per_thread_form) {
  const auto found = state().captures.find(capture_key(stream, is_per_thread_form));
  if (found == state().captures.end()) return kInvalidValue;
  const bool is_broken = found->second.is_broken;
  state().captures.erase(found);
  *out = is_broken ? nullptr : reinterpret_cast<Graph>(0x9000);
  return is_broken ? kCaptureInvalidated : 0;
}

bool has_ended(EventHandle event) { return state().ended_events.count(event) != 0; }

void record(EventHandle event) {
  state().events[event] = state().events_are_early ? 0 : state().queued;
}

StreamHandle new_stream() {
  auto* const stream = reinterpret_cast<StreamHandle>(fresh(1));
  state().streams[stream] = stack.back();
  return stream;
}

Result end_primary(int device) {
  const auto found = state().contexts.find(primary_handle(device));
  if (found == state().contexts.end()) return 0;
  drop_all_of(found->second.id);
  state().contexts.erase(found);
  state().captures.clear();
  return 0;
}

void retain_primary(int device) {
  if (state().primary_references[device]++ == 0)
    state().contexts[primary_handle(device)] = {state().next_id++, device};
}

Result release_primary(int device) {
  if (state().primary_references[device] == 0) return kInvalidContext;
  return --state().primary_references[device] == 0 ? end_primary(device) : 0;
}

Result reset_primary(int device) {
  end_primary(device);
  if (state().primary_references[device] > 0)
    state().contexts[primary_handle(device)] = {state().next_id++, device};
  return 0;
}

struct Row {
  const char* function;
  int version;
  uint64_t flags;
  const char* exported;
};

const Row kRows[] = {
#define SYMBOL(function, version, flags, exported) {#function, version, flags, #exported},
#include "driver_symbols.inc"
#undef SYMBOL
};

// The newest form that the asked version had, of functions that this driver has.
void* find(const char* function, int version, uint64_t flags) {
  const Row* found = nullptr;
  for (const Row& row : kRows) {
    if (std::strcmp(row.function, function) != 0 || row.flags != flags || row.version > version ||
        row.version > FAKE_VERSION)
      continue;
    if (found == nullptr || found->version < row.version) found = &row;
  }
  const char* const exported = found != nullptr ? found->exported : function;
  Dl_info info{};
  static const int here = 0;
  if (dladdr(&here, &info) == 0) return nullptr;
  void* const self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* const symbol = self != nullptr ? dlsym(self, exported) : nullptr;
  if (self != nullptr) dlclose(self);
  return symbol;
}

}  // namespace

#define DRIVER extern "C" [[gnu::visibility("default")]]

// ---- For tests

DRIVER uint64_t fake_calls(const char* name) {
  const std::lock_guard guard(mutex);
  return state().calls[name];
}
DRIVER void fake_fail(const char* name, int code) {
  const std::lock_guard guard(mutex);
  state().failing[name] = code;
}
DRIVER void fake_before(const char* name, void (*act)()) {
  const std::lock_guard guard(mutex);
  state().before[name] = act;
}
DRIVER void fake_start_work() {
  const std::lock_guard guard(mutex);
  state().queued++;
}
DRIVER uint64_t fake_queue_work() {
  const std::lock_guard guard(mutex);
  return ++state().queued;
}
DRIVER void fake_finish_to(uint64_t count) {
  const std::lock_guard guard(mutex);
  state().finished = std::max(state().finished, count);
  work_finished.notify_all();
}
DRIVER uint64_t fake_finished() {
  const std::lock_guard guard(mutex);
  return state().finished;
}
// A fault: events are done as soon as they are recorded.
DRIVER void fake_let_events_be_early() {
  const std::lock_guard guard(mutex);
  state().events_are_early = true;
}
DRIVER void fake_finish_work() {
  const std::lock_guard guard(mutex);
  state().finished = state().queued;
  work_finished.notify_all();
}
DRIVER const char* fake_order() {
  const std::lock_guard guard(mutex);
  static std::string copy;
  copy = state().order;
  return copy.c_str();
}
// A free that no hook sees.
DRIVER void fake_drop(DeviceAddress address) {
  const std::lock_guard guard(mutex);
  drop(address);
}
DRIVER Result cuFromANewerDriver() { return 42; }

// ---- Device and contexts

DRIVER Result cuInit(unsigned) { return CALL_WITHOUT_CONTEXT(return 0;); }
DRIVER Result cuDriverGetVersion(int* version) {
  return CALL_WITHOUT_CONTEXT(*version = FAKE_VERSION; return 0;);
}
DRIVER Result cuDeviceGetCount(int* count) { return CALL_WITHOUT_CONTEXT(*count = 2; return 0;); }
DRIVER Result cuDeviceGetPCIBusId(char* out, int capacity, DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(
      std::snprintf(out, static_cast<size_t>(capacity), "0000:1%c:00.0", 'a' + device); return 0;);
}
// As the fake management library names device 0.
DRIVER Result cuDeviceGetUuid(unsigned char* out, DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(
      for (int i = 0; i < 16; i++) out[i] = static_cast<unsigned char>(16 * device + i); return 0;);
}
DRIVER Result cuDeviceGet(DeviceOrdinal* out, int index) {
  return CALL_WITHOUT_CONTEXT(*out = index; return 0;);
}
DRIVER Result cuDeviceGetAttribute(int* out, int attribute, DeviceOrdinal) {
  constexpr int kComputeCapabilityMajor = 75;
  return CALL_WITHOUT_CONTEXT(*out = attribute == kComputeCapabilityMajor ? 9 : 1; return 0;);
}
DRIVER Result cuGetErrorString(Result, const char** out) {
  return CALL_WITHOUT_CONTEXT(*out = "an error of the fake"; return 0;);
}
DRIVER Result cuDeviceTotalMem_v2(size_t* total, DeviceOrdinal) {
  return CALL_WITHOUT_CONTEXT(*total = kMemory; return 0;);
}
DRIVER Result cuDevicePrimaryCtxRetain(Context* out, DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(retain_primary(device);
                              *out = reinterpret_cast<Context>(primary_handle(device)); return 0;);
}
DRIVER Result cuDevicePrimaryCtxRelease(DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(return release_primary(device););
}
DRIVER Result cuDevicePrimaryCtxRelease_v2(DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(return release_primary(device););
}
DRIVER Result cuDevicePrimaryCtxReset(DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(return reset_primary(device););
}
DRIVER Result cuDevicePrimaryCtxReset_v2(DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(return reset_primary(device););
}
// A reset that no hook sees.
DRIVER void fake_reset(int device) {
  const std::lock_guard guard(mutex);
  reset_primary(device);
}
DRIVER Result cuDevicePrimaryCtxGetState(DeviceOrdinal device, unsigned* flags, int* is_active) {
  return CALL_WITHOUT_CONTEXT(
      *flags = 0; *is_active = state().contexts.count(primary_handle(device)) != 0; return 0;);
}
Context new_context(DeviceOrdinal device) {
  const uint64_t handle = fresh(1);
  state().contexts[handle] = {state().next_id++, device};
  return reinterpret_cast<Context>(handle);
}
// One that no hook sees, of device 0.
DRIVER Context fake_make_context() {
  const std::lock_guard guard(mutex);
  return new_context(0);
}
DRIVER Result cuCtxCreate(Context* out, unsigned, DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(stack.push_back(*out = new_context(device)); return 0;);
}
DRIVER Result cuCtxCreate_v2(Context* out, unsigned, DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(stack.push_back(*out = new_context(device)); return 0;);
}
#if FAKE_VERSION >= 11040
DRIVER Result cuCtxCreate_v3(Context* out, ExecutionAffinity*, int, unsigned,
                             DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(stack.push_back(*out = new_context(device)); return 0;);
}
#endif
#if FAKE_VERSION >= 12050
DRIVER Result cuCtxCreate_v4(Context* out, ContextParameters*, unsigned, DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(stack.push_back(*out = new_context(device)); return 0;);
}
// Of device 0, whose primary context it holds.
DRIVER GreenContext fake_make_green_context() {
  const std::lock_guard guard(mutex);
  retain_primary(0);
  Context const context = new_context(0);
  state().contexts[number(context)].is_green = true;
  return reinterpret_cast<GreenContext>(context);
}
DRIVER Result cuCtxFromGreenCtx(Context* out, GreenContext green) {
  return CALL_WITHOUT_CONTEXT(
      if (state().contexts.count(number(green)) == 0) return kInvalidContext;
      *out = reinterpret_cast<Context>(green); return 0;);
}
DRIVER Result cuGreenCtxDestroy(GreenContext green) {
  return CALL_WITHOUT_CONTEXT(
      if (state().contexts.erase(number(green)) == 0) return kInvalidContext;
      state().freed[1].push_back(number(green));  // the next context may have its handle
      return release_primary(0););
}
#endif
DRIVER Result cuCtxDestroy(Context context) {
  return call(
      __func__,
      [&](auto&) {
        const auto found = state().contexts.find(number(context));
        if (found == state().contexts.end()) return kInvalidContext;
        drop_all_of(found->second.id);
        state().contexts.erase(found);
        state().freed[1].push_back(number(context));  // the next one may have its handle
        std::erase_if(state().captures, [&](const auto& row) {
          const auto of = state().streams.find(reinterpret_cast<StreamHandle>(row.first));
          return of != state().streams.end() && of->second == context;
        });
        if (!stack.empty() && stack.back() == context) stack.pop_back();
        return 0;
      },
      false);
}
DRIVER Result cuCtxDestroy_v2(Context context) { return cuCtxDestroy(context); }
DRIVER Result cuCtxSetCurrent(Context context) {
  return CALL_WITHOUT_CONTEXT(stack.assign(context != nullptr ? 1 : 0, context); return 0;);
}
DRIVER Result cuCtxGetCurrent(Context* out) {
  return CALL_WITHOUT_CONTEXT(*out = stack.empty() ? nullptr : stack.back(); return 0;);
}
DRIVER Result cuCtxGetDevice(DeviceOrdinal* out) {
  return CALL(const auto found = state().contexts.find(number(stack.back()));
              if (found == state().contexts.end()) return kInvalidContext;
              *out = found->second.device; return 0;);
}
DRIVER Result cuCtxGetFlags(unsigned* flags) { return CALL(*flags = 0; return 0;); }
DRIVER Result cuCtxPushCurrent_v2(Context context) {
  return CALL_WITHOUT_CONTEXT(stack.push_back(context); return 0;);
}
DRIVER Result cuCtxPopCurrent_v2(Context* out) {
  return CALL(*out = stack.back(); stack.pop_back(); return 0;);
}
DRIVER Result cuCtxEnablePeerAccess(Context, unsigned) { return CALL(return 0;); }
DRIVER Result cuCtxSynchronize() {
  return CALL(if (const Result code = break_captures()) return code;
              wait_for_work(lock, "cuCtxSynchronize"); return 0;);
}
#if FAKE_VERSION >= 12000
DRIVER Result cuCtxGetId(Context context, unsigned long long* id) {
  return CALL_WITHOUT_CONTEXT(const auto found = state().contexts.find(number(context));
                              if (found == state().contexts.end()) return kInvalidContext;
                              *id = found->second.id; return 0;);
}
#endif
#if FAKE_VERSION >= 12050
DRIVER Result cuCtxRecordEvent(Context context, EventHandle event) {
  return CALL_WITHOUT_CONTEXT(
      if (state().contexts.count(number(context)) == 0) return kInvalidContext;
      if (has_ended(event)) return kInvalidHandle; record(event); return break_captures(););
}
DRIVER Result cuGreenCtxStreamCreate(StreamHandle* out, GreenContext, unsigned, int) {
  return CALL(*out = new_stream(); return 0;);
}
#endif
#if FAKE_VERSION >= 13000
DRIVER Result cuCtxSynchronize_v2(Context) {
  return CALL(if (const Result code = break_captures()) return code;
              wait_for_work(lock, "cuCtxSynchronize_v2"); return 0;);
}
#endif

// ---- Memory

DRIVER Result cuMemGetInfo_v2(size_t* available, size_t* total) {
  return CALL(*available = kMemory - state().used[current_context().device]; *total = kMemory;
              return 0;);
}
DRIVER Result cuMemGetAddressRange_v2(DeviceAddress* base, size_t* size, DeviceAddress address) {
  return CALL(auto found = state().memory.upper_bound(address);
              if (found == state().memory.begin()) return kInvalidValue; --found;
              if (address - found->first >= found->second.size) return kInvalidValue;
              *base = found->first; *size = found->second.size; return 0;);
}
DRIVER Result cuPointerGetAttribute(void* out, int attribute, DeviceAddress address) {
  DeviceAddress base = 0;
  size_t size = 0;
  const Result result = cuMemGetAddressRange_v2(&base, &size, address);
  if (result != 0) return result;
  *static_cast<uint64_t*>(out) = attribute == 11 ? base : attribute == 12 ? size : 77;
  return 0;
}
DRIVER Result cuPointerGetAttributes(unsigned count, int* attributes, void** out,
                                     DeviceAddress address) {
  for (unsigned i = 0; i < count; i++)
    if (const Result code = cuPointerGetAttribute(out[i], attributes[i], address)) return code;
  return 0;
}
DRIVER Result cuMemsetD8Async(DeviceAddress address, unsigned char byte, size_t size,
                              StreamHandle) {
  return CALL(std::memset(reinterpret_cast<void*>(address), byte, size); return 0;);
}
DRIVER Result cuMemcpyDtoHAsync(void* out, DeviceAddress address, size_t size, StreamHandle) {
  return CALL(std::memcpy(out, reinterpret_cast<void*>(address), size); return 0;);
}
DRIVER Result cuMemcpyAsync(DeviceAddress to, DeviceAddress from, size_t size, StreamHandle) {
  return CALL(std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size);
              return 0;);
}
DRIVER Result cuMemcpyPeerAsync(DeviceAddress to, Context, DeviceAddress from, Context, size_t size,
                                StreamHandle stream) {
  return cuMemcpyAsync(to, from, size, stream);
}
DRIVER Result cuMemAlloc_v2(DeviceAddress* out, size_t size) {
  return CALL(if (const Result code = break_forbidding_captures()) return code;
              return take(out, size, true););
}
DRIVER Result cuMemAllocPitch_v2(DeviceAddress* out, size_t* pitch, size_t width, size_t height,
                                 unsigned) {
  return CALL(*pitch = (width + 511) / 512 * 512; return take(out, *pitch * height, true););
}
DRIVER Result cuMemFree_v2(DeviceAddress address) {
  return CALL(if (const Result code = break_forbidding_captures()) return code;
              const auto found = state().memory.find(address);
              if (found != state().memory.end() && found->second.is_waited_for &&
                  state().captures.empty()) wait_for_work(lock, "cuMemFree_v2");
              return drop(address););
}
DRIVER Result cuMemAllocManaged(DeviceAddress* out, size_t size, unsigned) {
  return CALL(return take(out, size, true););
}
DRIVER Result cuMemAllocHost(void** out, unsigned size) { return CALL(return take(out, size);); }
DRIVER Result cuMemAllocHost_v2(void** out, size_t size) { return CALL(return take(out, size);); }
DRIVER Result cuMemHostAlloc(void** out, size_t size, unsigned) {
  return CALL(return take(out, size););
}
DRIVER Result cuMemFreeHost(void* memory) {
  return CALL(wait_for_work(lock, "cuMemFreeHost"); return drop(number(memory)););
}
DRIVER Result cuMemHostRegister(void*, size_t, unsigned) { return CALL(return 0;); }
DRIVER Result cuMemHostRegister_v2(void*, size_t, unsigned) { return CALL(return 0;); }
DRIVER Result cuMemHostUnregister(void*) {
  return CALL(wait_for_work(lock, "cuMemHostUnregister"); return 0;);
}
DRIVER Result cuArrayCreate_v2(Array* out, const ArrayDescriptor*) {
  return CALL(return take(out, 1););
}
DRIVER Result cuArray3DCreate_v2(Array* out, const Array3dDescriptor*) {
  return CALL(return take(out, 1););
}
DRIVER Result cuArrayDestroy(Array array) {
  return CALL(wait_for_work(lock, "cuArrayDestroy"); return drop(number(array)););
}
DRIVER Result cuMipmappedArrayCreate(MipmappedArray* out, const Array3dDescriptor*, unsigned) {
  return CALL(return take(out, 1););
}
DRIVER Result cuMipmappedArrayDestroy(MipmappedArray array) {
  return CALL(return drop(number(array)););
}
// A handle is of the whole allocation.
DRIVER Result cuIpcGetMemHandle(IpcMemoryHandle* out, DeviceAddress address) {
  DeviceAddress base = 0;
  size_t size = 0;
  const Result result = cuMemGetAddressRange_v2(&base, &size, address);
  if (result == 0) std::memcpy(out->reserved, &base, sizeof base);
  return result;
}
DRIVER Result cuIpcOpenMemHandle(DeviceAddress* out, IpcMemoryHandle, unsigned) {
  return CALL(return take(out, 2 << 20););
}
DRIVER Result cuIpcOpenMemHandle_v2(DeviceAddress* out, IpcMemoryHandle, unsigned) {
  return CALL(return take(out, 2 << 20););
}
DRIVER Result cuIpcCloseMemHandle(DeviceAddress address) { return CALL(return drop(address);); }

#define ASYNC(suffix)                                                                        \
  DRIVER Result cuMemAllocAsync##suffix(DeviceAddress* out, size_t size, StreamHandle) {     \
    return CALL(return take(out, size););                                                    \
  }                                                                                          \
  DRIVER Result cuMemAllocFromPoolAsync##suffix(DeviceAddress* out, size_t size, MemoryPool, \
                                                StreamHandle) {                              \
    return CALL(return take(out, size););                                                    \
  }                                                                                          \
  DRIVER Result cuMemFreeAsync##suffix(DeviceAddress address, StreamHandle) {                \
    return CALL(return drop(address););                                                      \
  }
ASYNC()
ASYNC(_ptsz)
// A pool keeps what it has had.
DRIVER Result cuDeviceGetMemPool(MemoryPool* out, DeviceOrdinal device) {
  return CALL_WITHOUT_CONTEXT(
      *out = reinterpret_cast<MemoryPool>(0x9000 + static_cast<uint64_t>(device)); return 0;);
}
DRIVER Result cuMemPoolGetAttribute(MemoryPool, int attribute, void* out) {
  return CALL_WITHOUT_CONTEXT(*static_cast<uint64_t*>(out) = attribute == 5 ? state().pool_reserved
                                                             : attribute == 7 ? state().pool_used
                                                                              : 0;
                              return 0;);
}
DRIVER Result cuMemPoolDestroy(MemoryPool) { return CALL(return 0;); }
DRIVER void fake_set_pool(uint64_t reserved, uint64_t used) {
  const std::lock_guard guard(mutex);
  state().pool_reserved = reserved;
  state().pool_used = used;
}
DRIVER Result cuDeviceGetGraphMemAttribute(DeviceOrdinal, int attribute, void* out) {
  return CALL_WITHOUT_CONTEXT(*static_cast<uint64_t*>(out) = attribute == 2 ? 32 << 20 : 0;
                              return 0;);
}
DRIVER Result cuMemPoolImportPointer(DeviceAddress* out, MemoryPool, PoolPointerData*) {
  return CALL(return take(out, 1););
}
DRIVER Result cuMemPoolExportPointer(PoolPointerData*, DeviceAddress) { return CALL(return 0;); }

// ---- Virtual memory

DRIVER Result cuMemAddressReserve(DeviceAddress* out, size_t size, size_t, DeviceAddress,
                                  uint64_t) {
  return CALL_WITHOUT_CONTEXT(*out = fresh_range(size); state().ranges[*out] = size; return 0;);
}
DRIVER Result cuMemAddressFree(DeviceAddress address, size_t size) {
  return CALL_WITHOUT_CONTEXT(const auto found = state().ranges.find(address);
                              if (found == state().ranges.end() || found->second != size ||
                                  has_mapping(address, size)) return kInvalidValue;
                              state().ranges.erase(found); state().freed[size].push_back(address);
                              return 0;);
}
DRIVER Result cuMemGetHandleForAddressRange(void*, DeviceAddress, size_t, int, uint64_t) {
  return CALL(return 0;);
}
DRIVER Result cuMemMapArrayAsync(ArrayMapping*, unsigned, StreamHandle) { return CALL(return 0;); }
DRIVER Result cuMemMapArrayAsync_ptsz(ArrayMapping*, unsigned, StreamHandle) {
  return CALL(return 0;);
}
#if FAKE_VERSION >= 12010
DRIVER Result cuMulticastBindMem(AllocationHandle, size_t, AllocationHandle, size_t, size_t,
                                 uint64_t) {
  return CALL(return 0;);
}
DRIVER Result cuMulticastBindAddr(AllocationHandle, size_t, DeviceAddress, size_t, uint64_t) {
  return CALL(return 0;);
}
#endif
// What is mapped at the address; 0: nothing.
DRIVER AllocationHandle fake_mapping(DeviceAddress address) {
  const std::lock_guard guard(mutex);
  const auto found = state().mappings.find(address);
  return found != state().mappings.end() ? found->second.second : 0;
}
// Bytes of the device, and ranges that are reserved.
DRIVER uint64_t fake_used() {
  const std::lock_guard guard(mutex);
  uint64_t used = state().ranges.size();
  for (const auto& [device, bytes] : state().used) used += bytes;
  return used;
}
DRIVER Result cuMemGetAllocationGranularity(size_t* out, const AllocationProperties*, int) {
  return CALL_WITHOUT_CONTEXT(*out = 2 << 20; return 0;);
}
DRIVER Result cuMemImportFromShareableHandle(AllocationHandle*, void*, int) {
  return CALL(return kInvalidValue;);
}
DRIVER Result cuMemCreate(AllocationHandle* out, size_t size,
                          const AllocationProperties* properties, uint64_t) {
  return CALL_WITHOUT_CONTEXT(
      const int device = properties != nullptr ? properties->location.id : 0;
      if (!has_room(device, size)) return kOutOfMemory; state().used[device] += size;
      *out = fresh(1); state().handles[*out] = {size, device}; return 0;);
}
DRIVER Result cuMemRelease(AllocationHandle handle) {
  return CALL_WITHOUT_CONTEXT(
      const auto found = state().handles.find(handle);
      if (found == state().handles.end() || found->second.references == 0) return kInvalidValue;
      found->second.references--; drop_if_gone(handle); return 0;);
}
DRIVER Result cuMemRetainAllocationHandle(AllocationHandle* out, void* address) {
  return CALL_WITHOUT_CONTEXT(const auto found = state().mappings.find(number(address));
                              if (found == state().mappings.end()) return kInvalidValue;
                              *out = found->second.second; state().handles.at(*out).references++;
                              return 0;);
}
// Of a handle that is not known: memory of another process.
DRIVER Result cuMemMap(DeviceAddress address, size_t size, size_t offset, AllocationHandle handle,
                       uint64_t) {
  return CALL_WITHOUT_CONTEXT(
      if (has_mapping(address, size)) return kInvalidValue;
      const auto [row, is_foreign] = state().handles.try_emplace(handle);
      if (!is_foreign && offset + size > row->second.size) return kInvalidValue;
      row->second.mappings++; state().mappings[address] = {size, handle}; return 0;);
}
DRIVER Result cuMemUnmap(DeviceAddress address, size_t size) {
  return CALL_WITHOUT_CONTEXT(
      const auto begin = state().mappings.lower_bound(address);
      if (begin == state().mappings.end() || begin->first != address) return kInvalidValue;
      note("cuMemUnmap"); const auto end = state().mappings.lower_bound(address + size);
      for (auto at = begin; at != end; ++at) unmap(at->second); state().mappings.erase(begin, end);
      return 0;);
}
DRIVER Result cuMemSetAccess(DeviceAddress, size_t, const AccessDescriptor*, size_t) {
  return CALL(return 0;);
}
DRIVER Result cuMemExportToShareableHandle(void*, AllocationHandle, int, uint64_t) {
  return CALL(return 0;);
}

// ---- Streams

DRIVER Result cuStreamGetCtx(StreamHandle stream, Context* out) {
  return CALL(const auto found = state().streams.find(stream);
              *out = found != state().streams.end() ? found->second : stack.back(); return 0;);
}
DRIVER Result cuEventCreate(EventHandle* out, unsigned) {
  return CALL(*out = reinterpret_cast<EventHandle>(fresh(1));
              const auto found = state().contexts.find(number(stack.back()));
              if (found != state().contexts.end()) state().event_contexts[*out] = found->second.id;
              return 0;);
}
DRIVER Result cuEventSynchronize(EventHandle event) {
  return CALL_WITHOUT_CONTEXT(if (has_ended(event)) return kInvalidHandle;
                              if (const Result code = break_forbidding_captures()) return code;
                              note("cuEventSynchronize"); wait_until(lock, state().events[event]);
                              return 0;);
}
DRIVER Result cuEventRecord(EventHandle event, StreamHandle) {
  return CALL(if (has_ended(event)) return kInvalidHandle; record(event); return 0;);
}
DRIVER Result cuEventQuery(EventHandle event) {
  return CALL_WITHOUT_CONTEXT(if (has_ended(event)) return kInvalidHandle;
                              if (const Result code = break_forbidding_captures()) return code;
                              return state().finished >= state().events[event] ? 0 : kNotReady;);
}
DRIVER Result cuEventDestroy(EventHandle event) {
  return CALL(if (has_ended(event)) return kInvalidHandle; state().events.erase(event);
              state().event_contexts.erase(event); return 0;);
}
DRIVER Result cuStreamWaitEvent(StreamHandle, EventHandle, unsigned) { return CALL(return 0;); }
#if FAKE_VERSION >= 12030
#define EDGES const GraphEdge**,
#define EDGES_OF_NODE GraphEdge*,
#else
#define EDGES
#define EDGES_OF_NODE
#endif
DRIVER Result cuStreamGetCaptureInfo(StreamHandle stream, int* status, uint64_t* id, Graph*,
                                     const GraphNode**, EDGES size_t* count) {
  return CALL(*status = static_cast<int>(state().captures.count(capture_key(stream, false)));
              if (id != nullptr) * id = 1; if (count != nullptr) * count = 0; return 0;);
}
DRIVER Result cuGraphNodeGetDependencies(GraphNode, GraphNode*, EDGES_OF_NODE size_t* count) {
  return CALL(*count = 0; return 0;);
}
DRIVER Result cuThreadExchangeStreamCaptureMode(int* mode) {
  return CALL_WITHOUT_CONTEXT(std::swap(*mode, capture_mode); return 0;);
}
DRIVER Result cuStreamCreate(StreamHandle* out, unsigned) {
  return CALL(*out = new_stream(); return 0;);
}
DRIVER Result cuStreamCreateWithPriority(StreamHandle* out, unsigned, int) {
  return CALL(*out = new_stream(); return 0;);
}
DRIVER Result cuStreamDestroy(StreamHandle stream) {
  return CALL(state().captures.erase(number(stream)); return 0;);
}
DRIVER Result cuStreamDestroy_v2(StreamHandle stream) {
  return CALL(state().captures.erase(number(stream)); return 0;);
}
DRIVER Result cuStreamSynchronize(StreamHandle) {
  return CALL(if (const Result code = break_forbidding_captures()) return code;
              wait_for_work(lock, "cuStreamSynchronize"); return 0;);
}
DRIVER Result cuStreamSynchronize_ptsz(StreamHandle) {
  return CALL(wait_for_work(lock, "cuStreamSynchronize_ptsz"); return 0;);
}
DRIVER Result cuStreamIsCapturing(StreamHandle stream, int* status) {
  return CALL(*status = static_cast<int>(state().captures.count(capture_key(stream, false)));
              return 0;);
}
#define IS_PER_THREAD(suffix) (sizeof(#suffix) > 1)
#define CAPTURE(suffix)                                                                           \
  DRIVER Result cuStreamBeginCapture##suffix(StreamHandle stream) {                               \
    return CALL(return begin(stream, IS_PER_THREAD(suffix), kGlobal););                           \
  }                                                                                               \
  DRIVER Result cuStreamBeginCapture_v2##suffix(StreamHandle stream, int mode) {                  \
    return CALL(return begin(stream, IS_PER_THREAD(suffix), mode););                              \
  }                                                                                               \
  DRIVER Result cuStreamBeginCaptureToGraph##suffix(StreamHandle stream, Graph, const GraphNode*, \
                                                    const GraphEdge*, size_t, int mode) {         \
    return CALL(return begin(stream, IS_PER_THREAD(suffix), mode););                              \
  }                                                                                               \
  DRIVER Result cuStreamEndCapture##suffix(StreamHandle stream, Graph* out) {                     \
    return CALL(return end(stream, out, IS_PER_THREAD(suffix)););                                 \
  }
CAPTURE()
CAPTURE(_ptsz)

// ---- Functions by name

DRIVER Result cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  if (function == nullptr) return kFunctionNotFound;
  *function = find(name, version, flags == 0 ? 1 : flags);
  return *function != nullptr ? 0 : kFunctionNotFound;
}
DRIVER Result cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                                  int* status) {
  if (status != nullptr) *status = 0;
  return cuGetProcAddress(name, function, version, flags);
}
