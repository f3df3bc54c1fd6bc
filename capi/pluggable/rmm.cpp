// SPDX-License-Identifier: MIT OR Apache-2.0
// The two functions of rmm.mr.CallbackMemoryResource: builtin functions of Python (METH_FASTCALL) that
// cachalot_cuda/_rmm_functions.py makes of them, so that none of their own frames run in the interpreter. `self` is the
// device, as a number of Python's.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "cachalot/cachalot.h"
#include "cached.h"
#include "interpreter.h"

namespace {

// cachalot_cuda/_rmm_functions.py has the same struct. Python's objects are borrowed unless said otherwise.
struct Rmm {
  Interpreter interpreter;
  cachalot_allocator* allocator;
  void* (*call_method)(void* object, void* name, ...);  // PyObject_CallMethodObjArgs; the caller's
  void* (*item_of)(void* tuple, intptr_t index);        // PyTuple_GetItem
  unsigned long long (*to_number)(
      void* object);        // PyLong_AsUnsignedLongLong; all ones: perhaps an error
  void* (*error_is_set)();  // PyErr_Occurred
  void* (*from_number)(unsigned long long);  // PyLong_FromUnsignedLongLong; the caller's
  void* cuda_stream_name;                    // "__cuda_stream__"
};

const Rmm* rmm = nullptr;  // set once, before there is a function

// False (here and below): a Python error is set.
bool has_count(intptr_t count, intptr_t wanted) {
  if (count == wanted) return true;
  cachalot_error error{};
  error.status = CACHALOT_ERROR_INVALID_ARGUMENT;
  std::snprintf(error.message, sizeof error.message, "%td arguments were given instead of %td",
                count, wanted);
  rmm->interpreter.set_error(error);
  return false;
}

bool read(void* object, uint64_t& number) {
  number = rmm->to_number(object);
  return number != UINT64_MAX || rmm->error_is_set() == nullptr;
}

// By the protocol of CUDA's streams: a version and the handle.
bool read_stream(void* stream, cachalot_stream& handle) {
  void* const pair = rmm->call_method(stream, rmm->cuda_stream_name, nullptr);
  if (pair == nullptr) return false;
  void* const second = rmm->item_of(pair, 1);
  uint64_t number = 0;
  const bool is_read = second != nullptr && read(second, number);
  rmm->interpreter.release(pair);
  handle = plain_stream(number);
  return is_read;
}

}  // namespace

extern "C" {

// Before the first call of the others, with what they need; it is there for good.
CACHALOT_API void cachalot_pluggable_rmm_prepare(const void* parameter) {
  rmm = static_cast<const Rmm*>(parameter);
}

// (size, stream) gives the address; null (here and below): a Python error is set.
CACHALOT_API void* cachalot_pluggable_rmm_allocate(void* self, void* const* arguments,
                                                   intptr_t count) {
  uint64_t device = 0;
  uint64_t size = 0;
  cachalot_stream stream = 0;
  if (!has_count(count, 2) || !read(self, device) || !read(arguments[0], size) ||
      !read_stream(arguments[1], stream))
    return nullptr;
  const auto index = static_cast<int32_t>(device);
  cachalot_address address = cachalot::capi::allocate_cached(rmm->allocator, size, index, stream);
  if (address == 0) {
    cachalot_error error;
    error.struct_size = sizeof error;
    const cachalot_status status = rmm->interpreter.call_unlocked(
        [&] { return cachalot_allocate(rmm->allocator, size, index, stream, &address, &error); });
    if (status != CACHALOT_OK) {
      rmm->interpreter.set_error(error);
      return nullptr;
    }
  }
  return rmm->from_number(address);
}

// (address, size, stream): a block is handed out again when the work is done that the stream, where it is another one
// than the block's own, had been given by then.
CACHALOT_API void* cachalot_pluggable_rmm_deallocate(void*, void* const* arguments,
                                                     intptr_t count) {
  uint64_t address = 0;
  cachalot_stream stream = 0;
  if (!has_count(count, 3) || !read(arguments[0], address) || !read_stream(arguments[2], stream))
    return nullptr;
  cachalot_error error;
  error.struct_size = sizeof error;
  const cachalot_status status = rmm->interpreter.call_unlocked([&] {
    const cachalot_status recorded =
        cachalot_record_stream(rmm->allocator, address, stream, &error);
    return recorded == CACHALOT_OK ? cachalot_free(rmm->allocator, address, &error) : recorded;
  });
  if (status == CACHALOT_OK) return rmm->interpreter.build_value("");  // None
  rmm->interpreter.set_error(error);
  return nullptr;
}

}  // extern "C"
