// SPDX-License-Identifier: MIT OR Apache-2.0
// libcachalot_pluggable.so: cachalot as torch.cuda.memory.CUDAPluggableAllocator.
//
// PyTorch finds the functions by name. They share one allocator, which is made at the first call
// that needs it, with the options of cachalot_pluggable_set_options or of the environment, and which
// lives as long as the process. The functions of the public header are exported too, so that its
// statistics can be asked through the same library.
//
// The contract has no way to report an error. Where PyTorch is in the process and its frames let
// exceptions through, a call that fails throws PyTorch's own exception; else it says why on stderr.
//
// The contract keeps captures and other routings apart no more than it tells their begin and end, so
// each routing is marked as a capture too; a mark has an effect only on streams that are being
// captured (R10).
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "cachalot/cachalot.h"
#include "torch_error.h"

namespace {

using Filter = std::function<bool(void*)>;

cachalot_address to_address(const void* pointer) {
  return reinterpret_cast<cachalot_address>(pointer);
}

void print(const char* message) { std::fprintf(stderr, "cachalot: %s\n", message); }

void log_remark(void*, int32_t level, const char* message) {
  if (level != CACHALOT_LOG_DIFFERENCE) print(message);
}

// No caller knows less of the options than version 0.1 had.
constexpr size_t kFirstOptions =
    offsetof(cachalot_allocator_options, context_user_data) + sizeof(void*);

// What the allocator is made with; the texts are copies.
struct Options {
  cachalot_allocator_options values{};
  std::optional<std::string> config;
  std::optional<std::string> driver;

  Options() {
    values.struct_size = sizeof values;
    values.log = log_remark;
  }
};

const char* text_or_null(const std::optional<std::string>& text) {
  return text ? text->c_str() : nullptr;
}

// The one allocator; null: none has been made yet. Apart from what making it needs, so that a call reads one
// word.
constinit std::atomic<cachalot_allocator*> only_allocator{nullptr};

struct Making {
  std::mutex mutex;
  Options options;  // guarded by mutex
};

Making& making() {
  static auto* const only = new Making;  // never destroyed: blocks are freed until the very end
  return *only;
}

cachalot_status make_allocator(const Options& options, cachalot_allocator** allocator,
                               cachalot_error* error) {
  cachalot_allocator_options values = options.values;
  values.config = text_or_null(options.config);
  const cachalot_status opened =
      cachalot_driver_open(text_or_null(options.driver), &values.driver, error);
  if (opened != CACHALOT_OK) return opened;
  const cachalot_status made = cachalot_allocator_create(&values, allocator, error);
  cachalot_driver_destroy(values.driver);  // the allocator keeps it alive
  return made;
}

// The one allocator, made if there is none yet; if that fails, the next call tries again.
[[gnu::noinline]] cachalot_status find_or_make_allocator(cachalot_allocator** out,
                                                         cachalot_error* error) {
  *out = only_allocator.load(std::memory_order_acquire);
  if (*out != nullptr) return CACHALOT_OK;
  Making& state = making();
  const std::lock_guard lock(state.mutex);
  *out = only_allocator.load(std::memory_order_relaxed);
  if (*out != nullptr) return CACHALOT_OK;
  const cachalot_status status = make_allocator(state.options, out, error);
  if (status == CACHALOT_OK) only_allocator.store(*out, std::memory_order_release);
  return status;
}

void throw_error(const cachalot_error& error) {
  const bool out_of_memory = error.status == CACHALOT_ERROR_OUT_OF_MEMORY;
  cachalot::pluggable::throw_torch_error(out_of_memory
                                             ? cachalot::pluggable::TorchError::kOutOfMemory
                                             : cachalot::pluggable::TorchError::kOther,
                                         error.message);
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
  return call<Failure::kThrow>(cachalot_pool_begin, device, id, &route);
}

// Fills a caller's error record as far as it goes.
cachalot_status fail(cachalot_error* error, cachalot_status status, const char* message) {
  if (error == nullptr || error->struct_size < sizeof(cachalot_error)) return status;
  const size_t size = error->struct_size;  // a newer caller's is larger
  *error = CACHALOT_ERROR_INIT;
  error->struct_size = size;
  error->status = status;
  std::snprintf(error->message, sizeof error->message, "%s", message);
  return status;
}

// Runs what may not throw into C.
template <class Function>
cachalot_status guarded(cachalot_error* error, Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(error, CACHALOT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
  }
}

cachalot_status set_options(const char* driver, const cachalot_allocator_options* options,
                            cachalot_error* error) {
  Options wanted;
  if (options != nullptr) {
    const size_t size = options->struct_size;
    if (size < kFirstOptions || options->driver != nullptr)
      return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT,
                  "options: struct_size is too small or driver is set");
    std::memcpy(&wanted.values, options, std::min(size, sizeof wanted.values));
    wanted.values.struct_size = sizeof wanted.values;
    if (wanted.values.log == nullptr) wanted.values.log = log_remark;
    if (options->config != nullptr) wanted.config = options->config;
  }
  if (driver != nullptr) wanted.driver = driver;
  Making& state = making();
  const std::lock_guard lock(state.mutex);
  if (only_allocator.load(std::memory_order_relaxed) != nullptr)
    return fail(error, CACHALOT_ERROR_INVALID_STATE, "the allocator exists already");
  state.options = std::move(wanted);
  return CACHALOT_OK;
}

}  // namespace

extern "C" {

// Sets how the allocator will be made.
//
// driver   Which driver to open, as for cachalot_driver_open; NULL: CACHALOT_DRIVER decides.
// options  NULL: all defaults. Its driver field must be NULL; texts are copied; without a log
//          warnings are printed on stderr.
// Returns CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE once the allocator exists. Whether the options
// are acceptable shows when it is made. Any thread.
CACHALOT_API cachalot_status cachalot_pluggable_set_options(
    const char* driver, const cachalot_allocator_options* options, cachalot_error* error) {
  return guarded(error, [&] { return set_options(driver, options, error); });
}

// The allocator behind the functions below, made now if there is none yet; borrowed. Any thread.
CACHALOT_API cachalot_status cachalot_pluggable_get_allocator(cachalot_allocator** out_allocator,
                                                              cachalot_error* error) {
  cachalot_allocator* found = nullptr;
  const cachalot_status status =
      guarded(error, [&] { return find_or_make_allocator(&found, error); });
  if (status == CACHALOT_OK && out_allocator != nullptr) *out_allocator = found;
  return status;
}

CACHALOT_API void* cachalot_pluggable_alloc(size_t size, int device, void* stream) {
  cachalot_address address = 0;
  call<Failure::kThrow>(cachalot_allocate, size, device, to_address(stream), &address);
  return reinterpret_cast<void*>(address);
}

// The same without an exception, and without a word if memory is short: the allocation function for
// a MemPool, whose owner, PyTorch's native allocator, takes NULL for out of memory and has its own
// ways out.
CACHALOT_API void* cachalot_pluggable_try_alloc(size_t size, int device, void* stream) {
  cachalot_address address = 0;
  call<Failure::kSilent>(cachalot_allocate, size, device, to_address(stream), &address);
  return reinterpret_cast<void*>(address);
}

CACHALOT_API void cachalot_pluggable_free(void* pointer, size_t, int, void*) {
  if (pointer != nullptr) call<Failure::kPrint>(cachalot_free, to_address(pointer));
}

// Makes the allocator now, so that a wrong option shows at once.
CACHALOT_API void cachalot_pluggable_init(int) {
  call<Failure::kThrow>([](cachalot_allocator*, cachalot_error*) { return CACHALOT_OK; });
}

CACHALOT_API void cachalot_pluggable_reset(void) { call<Failure::kThrow>(cachalot_empty_cache); }

CACHALOT_API void cachalot_pluggable_memory_fraction(double fraction, int device) {
  call<Failure::kThrow>(cachalot_set_memory_fraction, device, fraction);
}

CACHALOT_API void* cachalot_pluggable_base_alloc(void* pointer, size_t* size) {
  cachalot_address base = 0;
  uint64_t bytes = 0;
  if (!call<Failure::kThrow>(cachalot_base_allocation, to_address(pointer), &base, &bytes))
    return nullptr;
  if (size != nullptr) *size = bytes;
  return reinterpret_cast<void*>(base);
}

CACHALOT_API void cachalot_pluggable_record_stream(void* pointer, void* stream) {
  call<Failure::kPrint>(cachalot_record_stream, to_address(pointer), to_address(stream));
}

CACHALOT_API void cachalot_pluggable_begin_allocate_to_pool(int device,
                                                            std::pair<uint64_t, uint64_t> id,
                                                            Filter filter) {
  if (begin_routing(device, {id.first, id.second}, std::move(filter)))
    call<Failure::kThrow>(cachalot_capture_begin, device);
}

CACHALOT_API void cachalot_pluggable_end_allocate_to_pool(int device,
                                                          std::pair<uint64_t, uint64_t> id) {
  if (call<Failure::kPrint>(cachalot_pool_end, device, cachalot_pool_id{id.first, id.second}))
    call<Failure::kPrint>(cachalot_capture_end, device);
}

CACHALOT_API void cachalot_pluggable_release_pool(int device, std::pair<uint64_t, uint64_t> id) {
  call<Failure::kPrint>(cachalot_pool_release, device, cachalot_pool_id{id.first, id.second});
}

}  // extern "C"
