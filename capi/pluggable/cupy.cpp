// SPDX-License-Identifier: MIT OR Apache-2.0
// The two functions of cupy.cuda.CFunctionAllocator, so that no Python runs in an allocation of CuPy's. What they
// need of CuPy and of the interpreter is in their parameter, which cachalot_cuda/cupy.py fills in.
#include <cstddef>
#include <cstdint>

#include "cachalot/cachalot.h"
#include "cached.h"
#include "hooks.h"
#include "interpreter.h"

namespace {

// cachalot_cuda/_cupy_functions.py has the same struct.
struct Cupy {
  Interpreter interpreter;
  cachalot_allocator* allocator;
  intptr_t (*get_current_stream)();  // CuPy's; -1: a Python error is set
  void* collect_garbage;  // gc.collect, which collects also where the automatic collection is off
};

constexpr intptr_t kErrorIsSet = -1;  // to CuPy, whose functions are Cython's

void* error_is_set() { return reinterpret_cast<void*>(kErrorIsSet); }

// No error of it is the caller's: the second request says what is to be said.
void collect_garbage(const Cupy& cupy) {
  const Interpreter& interpreter = cupy.interpreter;
  void* const count = interpreter.call(cupy.collect_garbage);
  count != nullptr ? interpreter.release(count) : interpreter.clear_error();
}

// As CuPy's own pool, it looks for arrays that only garbage refers to before it says that memory is short.
void* allocate_uncached(const Cupy& cupy, size_t size, int device, cachalot_stream stream) {
  cachalot_error error;
  error.struct_size = sizeof error;
  cachalot_address address = 0;
  const auto allocate = [&] {
    return cachalot_allocate(cupy.allocator, size, device, stream, &address, &error);
  };
  cachalot_status status = cupy.interpreter.call_unlocked(allocate);
  if (status == CACHALOT_ERROR_OUT_OF_MEMORY) {
    cachalot::capi::call_caller([&] { collect_garbage(cupy); });
    status = cupy.interpreter.call_unlocked(allocate);
  }
  if (status == CACHALOT_OK) return reinterpret_cast<void*>(address);
  cupy.interpreter.set_error(error);
  return error_is_set();
}

void free_slowly(const Cupy& cupy, cachalot_address address) {
  cachalot_error error;
  error.struct_size = sizeof error;
  const cachalot_status status = cupy.interpreter.call_unlocked(
      [&] { return cachalot_free(cupy.allocator, address, &error); });
  if (status != CACHALOT_OK) cachalot::pluggable::print(error.message);
}

}  // namespace

extern "C" {

CACHALOT_API void* cachalot_pluggable_cupy_alloc(void* param, size_t size, int device) {
  const Cupy& cupy = *static_cast<const Cupy*>(param);
  const intptr_t current = cupy.get_current_stream();
  if (current == kErrorIsSet) return error_is_set();
  const cachalot_stream stream = plain_stream(static_cast<uint64_t>(current));
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
