// SPDX-License-Identifier: MIT OR Apache-2.0
// Our own declarations of the driver's functions that `cachalot measure` times. tests/toolkit compares them with the real
// cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cachalot::cli::driver {

using Code = int;
using Context = struct ContextObject*;
using Stream = struct StreamObject*;

struct Location {
  int type;
  int id;
};

struct AllocationProperty {
  int type;
  int handle_types;
  Location location;
  void* win32_metadata;
  unsigned char flags[8];
};

struct AccessDescription {
  Location location;
  int flags;
};

inline constexpr int kPinned = 1;
inline constexpr int kDeviceLocation = 1;
inline constexpr int kReadWrite = 3;

// X(name, the name that the library exports, result and parameters).
#define CACHALOT_MEASURED_FUNCTIONS(X)                                                          \
  X(cuInit, cuInit, Code(unsigned))                                                             \
  X(cuDriverGetVersion, cuDriverGetVersion, Code(int*))                                         \
  X(cuDeviceGet, cuDeviceGet, Code(int*, int))                                                  \
  X(cuDeviceGetName, cuDeviceGetName, Code(char*, int, int))                                    \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, Code(Context*, int))                    \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, Code(int))                         \
  X(cuCtxSetCurrent, cuCtxSetCurrent, Code(Context))                                            \
  X(cuCtxSynchronize, cuCtxSynchronize, Code())                                                 \
  X(cuMemsetD8Async, cuMemsetD8Async, Code(uint64_t, unsigned char, size_t, Stream))            \
  X(cuGetErrorString, cuGetErrorString, Code(Code, const char**))                               \
  X(cuMemGetInfo, cuMemGetInfo_v2, Code(size_t*, size_t*))                                      \
  X(cuMemAlloc, cuMemAlloc_v2, Code(uint64_t*, size_t))                                         \
  X(cuMemFree, cuMemFree_v2, Code(uint64_t))                                                    \
  X(cuMemAddressReserve, cuMemAddressReserve,                                                   \
    Code(uint64_t*, size_t, size_t, uint64_t, unsigned long long))                              \
  X(cuMemAddressFree, cuMemAddressFree, Code(uint64_t, size_t))                                 \
  X(cuMemCreate, cuMemCreate,                                                                   \
    Code(unsigned long long*, size_t, const AllocationProperty*, unsigned long long))           \
  X(cuMemRelease, cuMemRelease, Code(unsigned long long))                                       \
  X(cuMemMap, cuMemMap, Code(uint64_t, size_t, size_t, unsigned long long, unsigned long long)) \
  X(cuMemUnmap, cuMemUnmap, Code(uint64_t, size_t))                                             \
  X(cuMemSetAccess, cuMemSetAccess, Code(uint64_t, size_t, const AccessDescription*, size_t))

#define CACHALOT_MEASURED_FORM(name, symbol, ...) using name##_form = __VA_ARGS__;
CACHALOT_MEASURED_FUNCTIONS(CACHALOT_MEASURED_FORM)
#undef CACHALOT_MEASURED_FORM

}  // namespace cachalot::cli::driver
