// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that processes share.
#include "hooks.h"
#include "real_driver.h"
#include "recorded_call.h"
#include "server.h"

using namespace cachalot::proxy;

namespace {

uint64_t size_at(DeviceAddress address) {
  DeviceAddress base = 0;
  size_t size = 0;
  return call_real(real().cuMemGetAddressRange_v2, &base, &size, address) == 0 ? size : 0;
}

Result open_handle(cuIpcOpenMemHandle_form* open, DeviceAddress* out, const IpcMemoryHandle& handle,
                   unsigned flags) {
  Request request{.entry = 'i', .size = 0, .is_cacheable = false};
  return obtain(request, out, [&] {
    const Result result = call_real(open, out, handle, flags);
    if (result == 0) request.size = size_at(*out);
    return result;
  });
}

}  // namespace

Result cuIpcGetMemHandle(IpcMemoryHandle* handle, DeviceAddress address) {
  Server* const server = Server::get();
  if (server != nullptr && !server->can_be_exported(address)) {
    server->not_served(NotServed::kExport);
    return cachalot::kDriverNotSupported;
  }
  return tell_if_done(call_real(real().cuIpcGetMemHandle, handle, address),
                      [&](Recorder& recorder) { recorder.exported(address, 's'); });
}

Result cuIpcOpenMemHandle(DeviceAddress* out, IpcMemoryHandle handle, unsigned flags) {
  return open_handle(real().cuIpcOpenMemHandle, out, handle, flags);
}
Result cuIpcOpenMemHandle_v2(DeviceAddress* out, IpcMemoryHandle handle, unsigned flags) {
  return open_handle(real().cuIpcOpenMemHandle_v2, out, handle, flags);
}
Result cuIpcCloseMemHandle(DeviceAddress address) {
  return give_back(address, {.entry = 'i', .stream = {}},
                   [&] { return call_real(real().cuIpcCloseMemHandle, address); });
}
