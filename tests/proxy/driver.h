// SPDX-License-Identifier: MIT OR Apache-2.0
// A driver as a program has it: opened by its name, its functions found in it.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "entry_points.h"
#include "fake_driver.h"

namespace proxy_test {

using namespace cachalot::proxy;

using cuInit_form = Result(unsigned);
using cuCtxSetCurrent_form = Result(Context);
using cuEventDestroy_form = Result(EventHandle);
using fake_reset_form = void(int);
using fake_used_form = uint64_t();
using fake_mapping_form = AllocationHandle(DeviceAddress);
using fake_make_context_form = Context();
using fake_make_green_context_form = GreenContext();
using fake_drop_form = void(DeviceAddress);

#define PROXY_TEST_OTHERS(X)  \
  X(cuInit)                   \
  X(cuCtxSetCurrent)          \
  X(fake_calls)               \
  X(fake_fail)                \
  X(fake_before)              \
  X(fake_start_work)          \
  X(fake_finish_work)         \
  X(fake_order)               \
  X(fake_queue_work)          \
  X(fake_finish_to)           \
  X(fake_finished)            \
  X(fake_let_events_be_early) \
  X(fake_set_pool)            \
  X(cuEventDestroy)           \
  X(fake_reset)               \
  X(fake_make_context)        \
  X(fake_make_green_context)  \
  X(fake_used)                \
  X(fake_mapping)             \
  X(fake_drop)

// Those that it does not have are null.
struct Driver {
#define PROXY_TEST_POINTER(name, ...) name##_form* name;
  CACHALOT_HOOKED(PROXY_TEST_POINTER)
  CACHALOT_CALLED(PROXY_TEST_POINTER)
  PROXY_TEST_OTHERS(PROXY_TEST_POINTER)
#undef PROXY_TEST_POINTER

  explicit Driver(const char* name = "libcuda.so.1") {
    void* const library = dlopen(name, RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
#define PROXY_TEST_FIND(name, ...) name = reinterpret_cast<name##_form*>(dlsym(library, #name));
    CACHALOT_HOOKED(PROXY_TEST_FIND)
    CACHALOT_CALLED(PROXY_TEST_FIND)
    PROXY_TEST_OTHERS(PROXY_TEST_FIND)
#undef PROXY_TEST_FIND
  }

  // The primary context of the device is current on this thread.
  void use(int device = 0) const {
    Context context = nullptr;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
  }
};

}  // namespace proxy_test
