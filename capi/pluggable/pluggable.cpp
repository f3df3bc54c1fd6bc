// SPDX-License-Identifier: MIT OR Apache-2.0
// libcachalot_pluggable.so: cachalot as torch.cuda.memory.CUDAPluggableAllocator.
//
// PyTorch finds the functions by name. They share one allocator, which is made at the first call
// that needs it, with options from the environment, and which lives as long as the process. This
// contract has no way to report an error: a call that fails says why on stderr. It keeps captures
// and other routings apart no more than it tells their begin and end, so each routing is marked as
// a capture too; a mark has an effect only on streams that are being captured (R10).
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "cachalot/cachalot.h"

namespace {

using Filter = std::function<bool(void*)>;

cachalot_address to_address(const void* pointer) {
  return reinterpret_cast<cachalot_address>(pointer);
}

void print(const char* message) { std::fprintf(stderr, "cachalot: %s\n", message); }

void log_remark(void*, int32_t level, const char* message) {
  if (level != CACHALOT_LOG_DIFFERENCE) print(message);
}

cachalot_allocator* make_allocator() {
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.log = log_remark;
  cachalot_allocator* allocator = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  if (cachalot_allocator_create(&options, &allocator, &error) != CACHALOT_OK) print(error.message);
  return allocator;
}

// The one allocator; NULL if it can not be made. The next call tries again.
cachalot_allocator* shared_allocator() {
  static std::atomic<cachalot_allocator*> shared{nullptr};
  static std::mutex making;
  if (cachalot_allocator* allocator = shared.load(std::memory_order_acquire)) return allocator;
  const std::lock_guard lock(making);
  if (shared.load(std::memory_order_relaxed) == nullptr)
    shared.store(make_allocator(), std::memory_order_release);
  return shared.load(std::memory_order_relaxed);
}

// Calls a function of the C interface with the allocator and `arguments`; false, and a line on
// stderr, if it fails.
template <class Function, class... Arguments>
bool call(Function function, Arguments... arguments) {
  cachalot_allocator* const allocator = shared_allocator();
  if (allocator == nullptr) return false;
  cachalot_error error;  // CACHALOT_ERROR_INIT would clear 4 KiB a call.
  error.struct_size = sizeof error;
  if (function(allocator, arguments..., &error) == CACHALOT_OK) return true;
  print(error.message);
  return false;
}

int32_t run_filter(void* user_data, cachalot_stream stream) {
  try {
    return (*static_cast<Filter*>(user_data))(reinterpret_cast<void*>(stream));
  } catch (...) {
    print("a pool's filter threw an exception");
    return 0;
  }
}

void delete_filter(void* user_data) { delete static_cast<Filter*>(user_data); }

bool begin_routing(int device, cachalot_pool_id id, Filter filter) {
  cachalot_pool_route route{};
  route.struct_size = sizeof route;
  route.kind = filter ? CACHALOT_ROUTE_PREDICATE : CACHALOT_ROUTE_ALL;
  route.predicate = run_filter;
  route.user_data = new (std::nothrow) Filter(std::move(filter));
  route.destroy = delete_filter;
  if (route.user_data == nullptr) {
    print("out of host memory");
    return false;
  }
  return call(cachalot_pool_begin, device, id, &route);
}

}  // namespace

extern "C" {

CACHALOT_API void* cachalot_pluggable_alloc(size_t size, int device, void* stream) {
  cachalot_address address = 0;
  call(cachalot_allocate, size, device, to_address(stream), &address);
  return reinterpret_cast<void*>(address);
}

CACHALOT_API void cachalot_pluggable_free(void* pointer, size_t, int, void*) {
  if (pointer != nullptr) call(cachalot_free, to_address(pointer));
}

// Makes the allocator now, so that a wrong option shows at once.
CACHALOT_API void cachalot_pluggable_init(int) { shared_allocator(); }

CACHALOT_API void cachalot_pluggable_reset(void) { call(cachalot_empty_cache); }

CACHALOT_API void cachalot_pluggable_memory_fraction(double fraction, int device) {
  call(cachalot_set_memory_fraction, device, fraction);
}

CACHALOT_API void* cachalot_pluggable_base_alloc(void* pointer, size_t* size) {
  cachalot_address base = 0;
  uint64_t bytes = 0;
  if (!call(cachalot_base_allocation, to_address(pointer), &base, &bytes)) return nullptr;
  if (size != nullptr) *size = bytes;
  return reinterpret_cast<void*>(base);
}

CACHALOT_API void cachalot_pluggable_record_stream(void* pointer, void* stream) {
  call(cachalot_record_stream, to_address(pointer), to_address(stream));
}

CACHALOT_API void cachalot_pluggable_begin_allocate_to_pool(int device,
                                                            std::pair<uint64_t, uint64_t> id,
                                                            Filter filter) {
  if (begin_routing(device, {id.first, id.second}, std::move(filter)))
    call(cachalot_capture_begin, device);
}

CACHALOT_API void cachalot_pluggable_end_allocate_to_pool(int device,
                                                          std::pair<uint64_t, uint64_t> id) {
  if (call(cachalot_pool_end, device, cachalot_pool_id{id.first, id.second}))
    call(cachalot_capture_end, device);
}

CACHALOT_API void cachalot_pluggable_release_pool(int device, std::pair<uint64_t, uint64_t> id) {
  call(cachalot_pool_release, device, cachalot_pool_id{id.first, id.second});
}

}  // extern "C"
