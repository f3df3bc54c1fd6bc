// SPDX-License-Identifier: MIT OR Apache-2.0
// The two functions of cupy.cuda.CFunctionAllocator, so that no Python runs in an allocation of CuPy's. What they
// need of CuPy and of the interpreter is in their parameter, which cachalot_cuda/cupy.py fills in.
//
// CuPy calls them with the interpreter's lock held. A call that may wait for the device, or for a thread that does,
// gives the lock up, since the device may wait for a Python function (cupy.cuda.Stream.launch_host_func).
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "cachalot/cachalot.h"
#include "cached.h"

namespace {

// cachalot_cuda/cupy.py has the same struct. Python's objects are borrowed unless said otherwise.
struct Cupy {
  cachalot_allocator* allocator;
  intptr_t (*get_current_stream)();                // CuPy's; -1: a Python error is set
  void* (*save_thread)();                          // PyEval_SaveThread
  void (*restore_thread)(void*);                   // PyEval_RestoreThread
  void* (*call)(void* function);                   // PyObject_CallNoArgs; the caller's
  void* (*build_value)(const char* form, ...);     // Py_BuildValue; the caller's
  void (*set_error)(void* type, void* arguments);  // PyErr_SetObject
  void (*release)(void* object);                   // Py_DecRef
  void (*clear_error)();                           // PyErr_Clear
  void* out_of_memory;  // types of errors, made of a text, a status and the driver's code
  void* other_error;
  void* collect_garbage;  // gc.collect, which collects also where the automatic collection is off
};

constexpr intptr_t kLegacyDefaultStream = 1;  // CUDA's other handle of the stream 0
constexpr intptr_t kErrorIsSet = -1;          // to CuPy, whose functions are Cython's

// While the interpreter ends it ends each thread of a daemon that asks for its lock, by unwinding the thread's stack.
// CuPy's frames end the process where a stack is unwound. So the thread waits for the end here, as the interpreter
// itself lets it wait from Python 3.14 on.
template <class Call>
auto call_interpreter(Call call) {
  try {
    return call();
  } catch (...) {
    for (;;) pause();
  }
}

// Gives the interpreter's lock up for a call.
template <class Call>
cachalot_status call_unlocked(const Cupy& cupy, Call call) {
  void* const thread = cupy.save_thread();
  const cachalot_status status = call();
  call_interpreter([&] { cupy.restore_thread(thread); });
  return status;
}

void* error_is_set() { return reinterpret_cast<void*>(kErrorIsSet); }

void set_python_error(const Cupy& cupy, const cachalot_error& error) {
  void* const arguments = cupy.build_value("(sii)", error.message, error.status, error.driver_code);
  if (arguments == nullptr) return;  // an error of its own is set
  const bool is_out_of_memory = error.status == CACHALOT_ERROR_OUT_OF_MEMORY;
  cupy.set_error(is_out_of_memory ? cupy.out_of_memory : cupy.other_error, arguments);
  cupy.release(arguments);
}

// No error of it is the caller's: the second request says what is to be said.
void collect_garbage(const Cupy& cupy) {
  void* const count = cupy.call(cupy.collect_garbage);
  count != nullptr ? cupy.release(count) : cupy.clear_error();
}

// As CuPy's own pool, it looks for arrays that only garbage refers to before it says that memory is short.
void* allocate_uncached(const Cupy& cupy, size_t size, int device, cachalot_stream stream) {
  cachalot_error error;
  error.struct_size = sizeof error;
  cachalot_address address = 0;
  const auto allocate = [&] {
    return cachalot_allocate(cupy.allocator, size, device, stream, &address, &error);
  };
  cachalot_status status = call_unlocked(cupy, allocate);
  if (status == CACHALOT_ERROR_OUT_OF_MEMORY) {
    call_interpreter([&] { collect_garbage(cupy); });
    status = call_unlocked(cupy, allocate);
  }
  if (status == CACHALOT_OK) return reinterpret_cast<void*>(address);
  set_python_error(cupy, error);
  return error_is_set();
}

void free_slowly(const Cupy& cupy, cachalot_address address) {
  cachalot_error error;
  error.struct_size = sizeof error;
  const cachalot_status status =
      call_unlocked(cupy, [&] { return cachalot_free(cupy.allocator, address, &error); });
  if (status != CACHALOT_OK) std::fprintf(stderr, "cachalot: %s\n", error.message);
}

}  // namespace

extern "C" {

CACHALOT_API void* cachalot_pluggable_cupy_alloc(void* param, size_t size, int device) {
  const Cupy& cupy = *static_cast<const Cupy*>(param);
  const intptr_t current = cupy.get_current_stream();
  if (current == kErrorIsSet) return error_is_set();
  const cachalot_stream stream =
      current == kLegacyDefaultStream ? 0 : static_cast<cachalot_stream>(current);
  const cachalot_address cached =
      cachalot::capi::allocate_cached(cupy.allocator, size, device, stream);
  return cached != 0 ? reinterpret_cast<void*>(cached)
                     : allocate_uncached(cupy, size, device, stream);
}

CACHALOT_API void cachalot_pluggable_cupy_free(void* param, void* pointer, int) {
  if (pointer == error_is_set()) return;  // of a CuPy that does not look at errors of its functions
  const Cupy& cupy = *static_cast<const Cupy*>(param);
  const auto address = reinterpret_cast<cachalot_address>(pointer);
  if (!cachalot::capi::free_cached(cupy.allocator, address)) free_slowly(cupy, address);
}

}  // extern "C"
