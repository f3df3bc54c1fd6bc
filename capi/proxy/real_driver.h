// SPDX-License-Identifier: MIT OR Apache-2.0
// The driver behind the proxy.
//
// Note [A dependency under another name]
// Rationale: a program finds hundreds of functions in libcuda.so.1, more with each driver, and the proxy
// changes a few.
// Approach: the proxy exports those alone, and depends on the real driver under the name
// libcachalot_real_cuda.so, a link that the launcher makes. Where a program looks for a function in the proxy,
// linked or by dlsym, the loader goes on to what the proxy depends on. So a function that the proxy does not
// have is the driver's own, without a detour, also one that is newer than the proxy.
#pragma once

#include "entry_points.h"

namespace cachalot::proxy {

// Null where the driver has no such function.
struct RealDriver {
#define CACHALOT_POINTER(name, function, version, ...) name##_form* name = nullptr;
  CACHALOT_HOOKED(CACHALOT_POINTER)
  CACHALOT_CALLED(CACHALOT_POINTER)
#undef CACHALOT_POINTER
};

// The name under which it is loaded.
inline constexpr const char* kRealDriver = "libcachalot_real_cuda.so";

const RealDriver& real();

// Calls the driver's function, or says that it has none.
template <class Function, class... Arguments>
Result call_real(Function* function, Arguments... arguments) {
  return function != nullptr ? function(arguments...) : kFunctionNotFound;
}

}  // namespace cachalot::proxy
