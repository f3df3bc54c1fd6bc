// SPDX-License-Identifier: MIT OR Apache-2.0
#include "hooks.h"

#include <cstdint>
#include <cstdio>
#include <new>

#include "torch_error.h"

namespace cachalot::pluggable {

constinit std::atomic<cachalot_allocator*> only_allocator{nullptr};

void print(const char* message) { std::fprintf(stderr, "cachalot: %s\n", message); }

namespace {

cachalot_address to_address(const void* pointer) {
  return reinterpret_cast<cachalot_address>(pointer);
}

void throw_error(const cachalot_error& error) {
  const bool out_of_memory = error.status == CACHALOT_ERROR_OUT_OF_MEMORY;
  throw_torch_error(out_of_memory ? TorchError::kOutOfMemory : TorchError::kOther, error.message);
}

enum class Failure {
  kThrow,   // PyTorch's exception, or a line on stderr without PyTorch
  kPrint,   // a line on stderr: called where an exception would end the process
  kSilent,  // the same, but not for out of memory, which the caller reports
};

[[gnu::noinline]] void report_failure(Failure failure, const cachalot_error& error) {
  if (failure == Failure::kThrow) throw_error(error);
  if (failure != Failure::kSilent || error.status != CACHALOT_ERROR_OUT_OF_MEMORY)
    print(error.message);
}

template <Failure kFailure, class Function, class... Arguments>
bool call(Function function, Arguments... arguments);

// Apart from call(), which would have to keep its arguments over the making.
template <Failure kFailure, class Function, class... Arguments>
[[gnu::noinline]] bool make_and_call(Function function, Arguments... arguments) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* made = nullptr;
  if (find_or_make_allocator(&made, &error) == CACHALOT_OK)
    return call<kFailure>(function, arguments...);
  report_failure(kFailure, error);
  return false;
}

// Calls a function of the C interface with the allocator and `arguments`; false if it fails. Inline, so that
// `function` is called by name.
template <Failure kFailure, class Function, class... Arguments>
[[gnu::always_inline]] inline bool call(Function function, Arguments... arguments) {
  cachalot_allocator* const allocator = only_allocator.load(std::memory_order_acquire);
  if (allocator == nullptr) [[unlikely]]
    return make_and_call<kFailure>(function, arguments...);
  cachalot_error error;  // CACHALOT_ERROR_INIT would clear 4 KiB a call.
  error.struct_size = sizeof error;
  if (function(allocator, arguments..., &error) == CACHALOT_OK) [[likely]]
    return true;
  report_failure(kFailure, error);
  return false;
}

int32_t run_filter(void* user_data, cachalot_stream stream) {
  try {
    return (*static_cast<Filter*>(user_data))(reinterpret_cast<Stream>(stream));
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
  return call<Failure::kThrow>(cachalot_pool_begin, device, id, &route);
}

}  // namespace

extern "C" {

void* cachalot_pluggable_alloc(size_t size, int device, Stream stream) {
  cachalot_address address = 0;
  call<Failure::kThrow>(cachalot_allocate, size, device, to_address(stream), &address);
  return reinterpret_cast<void*>(address);
}

void* cachalot_pluggable_try_alloc(size_t size, int device, Stream stream) {
  cachalot_address address = 0;
  call<Failure::kSilent>(cachalot_allocate, size, device, to_address(stream), &address);
  return reinterpret_cast<void*>(address);
}

void cachalot_pluggable_free(void* pointer, size_t, int, Stream) {
  if (pointer != nullptr) call<Failure::kPrint>(cachalot_free, to_address(pointer));
}

void cachalot_pluggable_init(int) {
  call<Failure::kThrow>([](cachalot_allocator*, cachalot_error*) { return CACHALOT_OK; });
}

void cachalot_pluggable_reset(void) { call<Failure::kThrow>(cachalot_empty_cache); }

void cachalot_pluggable_memory_fraction(double fraction, int device) {
  call<Failure::kThrow>(cachalot_set_memory_fraction, device, fraction);
}

void* cachalot_pluggable_base_alloc(void* pointer, size_t* size) {
  cachalot_address base = 0;
  uint64_t bytes = 0;
  if (!call<Failure::kThrow>(cachalot_base_allocation, to_address(pointer), &base, &bytes))
    return nullptr;
  if (size != nullptr) *size = bytes;
  return reinterpret_cast<void*>(base);
}

void cachalot_pluggable_record_stream(void* pointer, Stream stream) {
  call<Failure::kPrint>(cachalot_record_stream, to_address(pointer), to_address(stream));
}

void cachalot_pluggable_begin_allocate_to_pool(int device, PoolId id, Filter filter) {
  if (begin_routing(device, {id.first, id.second}, std::move(filter)))
    call<Failure::kThrow>(cachalot_capture_begin, device);
}

void cachalot_pluggable_end_allocate_to_pool(int device, PoolId id) {
  if (call<Failure::kPrint>(cachalot_pool_end, device, cachalot_pool_id{id.first, id.second}))
    call<Failure::kPrint>(cachalot_capture_end, device);
}

void cachalot_pluggable_release_pool(int device, PoolId id) {
  call<Failure::kPrint>(cachalot_pool_release, device, cachalot_pool_id{id.first, id.second});
}

}  // extern "C"

}  // namespace cachalot::pluggable
