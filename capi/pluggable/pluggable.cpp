// SPDX-License-Identifier: MIT OR Apache-2.0
// libcachalot_pluggable.so: cachalot as torch.cuda.memory.CUDAPluggableAllocator.
//
// PyTorch finds the functions of hooks.h by name. They share one allocator, which is made at the first call
// that needs it, with the options of cachalot_pluggable_set_options or of the environment, and which
// lives as long as the process. The functions of the public header are exported too, so that its
// statistics can be asked through the same library.
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "cachalot/cachalot.h"
#include "hooks.h"

using cachalot::pluggable::only_allocator;

namespace {

void log_remark(void*, int32_t level, const char* message) {
  if (level != CACHALOT_LOG_DIFFERENCE) cachalot::pluggable::print(message);
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

}  // namespace

// Made if there is none yet; if that fails, the next call tries again.
cachalot_status cachalot::pluggable::find_or_make_allocator(cachalot_allocator** out,
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

namespace {

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
      guarded(error, [&] { return cachalot::pluggable::find_or_make_allocator(&found, error); });
  if (status == CACHALOT_OK && out_allocator != nullptr) *out_allocator = found;
  return status;
}

// A cachalot_log_fn that writes each remark as a line, "LEVEL MESSAGE", to the file descriptor that user_data
// is: a pipe that does not block, for a host whose own functions cannot be called under a lock, as those of
// Python cannot. A remark that the pipe has no room for is lost, and a long one is cut (PIPE_BUF).
CACHALOT_API void cachalot_pluggable_log(void* user_data, int32_t level, const char* message) {
  char number[16];
  const int digits = std::snprintf(number, sizeof number, "%d ", static_cast<int>(level));
  const size_t length = strnlen(message, PIPE_BUF - sizeof number);
  char newline = '\n';
  const iovec parts[] = {
      {number, static_cast<size_t>(digits)}, {const_cast<char*>(message), length}, {&newline, 1}};
  const int error = errno;
  if (writev(static_cast<int>(reinterpret_cast<intptr_t>(user_data)), parts, 3) < 0) errno = error;
}

}  // extern "C"
