// SPDX-License-Identifier: MIT OR Apache-2.0
// What the functions for hosts in Python call of the interpreter. cachalot_cuda/_interpreter.py fills it in, so that the
// library is linked to no Python.
//
// The hosts call with the interpreter's lock held. A call that may wait for the device, or for a thread that does,
// gives the lock up, since the device may wait for a Python function (cupy.cuda.Stream.launch_host_func).
#pragma once

#include <cstdint>

#include "cachalot/cachalot.h"
#include "callback.h"

// CUDA has two handles for the legacy default stream, which cachalot knows by the first.
inline cachalot_stream plain_stream(uint64_t handle) { return handle == 1 ? 0 : handle; }

// cachalot_cuda/_interpreter.py has the same struct. Python's objects are borrowed unless said otherwise.
struct Interpreter {
  void* (*save_thread)();                                 // PyEval_SaveThread
  void (*restore_thread)(void*);                          // PyEval_RestoreThread
  void* (*call)(void* function);                          // PyObject_CallNoArgs; the caller's
  void* (*build_value)(const char* form, ...);            // Py_BuildValue; the caller's
  void (*set_error_object)(void* type, void* arguments);  // PyErr_SetObject
  void (*release)(void* object);                          // Py_DecRef
  void (*clear_error)();                                  // PyErr_Clear
  void* out_of_memory;  // types of errors, made of a text, a status and the driver's code
  void* other_error;

  // Gives the interpreter's lock up for a call. While the interpreter ends, taking the lock again ends the thread of a
  // daemon (callback.h); from Python 3.14 on the interpreter itself lets it wait.
  template <class Call>
  cachalot_status call_unlocked(Call waits) const {
    void* const thread = save_thread();
    const cachalot_status status = waits();
    cachalot::capi::call_caller([&] { restore_thread(thread); });
    return status;
  }

  void set_error(const cachalot_error& error) const {
    void* const arguments = build_value("(sii)", error.message, error.status, error.driver_code);
    if (arguments == nullptr) return;  // an error of its own is set
    const bool is_out_of_memory = error.status == CACHALOT_ERROR_OUT_OF_MEMORY;
    set_error_object(is_out_of_memory ? out_of_memory : other_error, arguments);
    release(arguments);
  }
};
