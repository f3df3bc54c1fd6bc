// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of the device that no stream orders.
#include "hooks.h"
#include "real_driver.h"
#include "recorded_call.h"

using namespace cachalot::proxy;

Result cuMemAlloc_v2(DeviceAddress* out, size_t size) {
  return obtain({.entry = 's', .size = size}, out, [&] {
    return serve_or(
        [&](Server& server) { return server.allocate(size, out); },
        [&] { return pass_on(out, [&] { return call_real(real().cuMemAlloc_v2, out, size); }); });
  });
}

Result cuMemAllocPitch_v2(DeviceAddress* out, size_t* pitch, size_t width, size_t height,
                          unsigned element) {
  // The driver says how long a row is, so the size is known behind its call.
  Request request{.entry = 'h', .size = width * height};
  return obtain(request, out, [&] {
    const Result result = pass_on(out, [&] {
      return call_real(real().cuMemAllocPitch_v2, out, pitch, width, height, element);
    });
    if (result == 0) request.size = *pitch * height;
    return result;
  });
}

Result cuMemFree_v2(DeviceAddress address) {
  return give_back(address, {.entry = 's', .stream = {}}, [&] {
    return serve_or([&](Server& server) { return server.free(address); },
                    [&] { return call_real(real().cuMemFree_v2, address); });
  });
}

Result cuMemAllocManaged(DeviceAddress* out, size_t size, unsigned flags) {
  return obtain({.entry = 'm', .size = size, .is_cacheable = false}, out, [&] {
    return pass_on(out, [&] { return call_real(real().cuMemAllocManaged, out, size, flags); });
  });
}
