// SPDX-License-Identifier: MIT OR Apache-2.0
// The device's memory between processes: handles and descriptors have the bytes of the oracle's.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "script_device.h"

namespace cachalot::differential {
namespace {

constexpr int32_t kFirstDescriptor = 900;

// Whoever opens the page takes the descriptor from this process, so it has to exist.
void open_at(int descriptor) {
  const int file = memfd_create("page", MFD_CLOEXEC);
  dup3(file, descriptor, O_CLOEXEC);
  close(file);
}

void fill(cachalot_shareable_handle* out, uint8_t filling, uint64_t name) {
  std::memset(out->bytes, filling, sizeof out->bytes);
  std::memcpy(out->bytes, &name, sizeof name);
}

}  // namespace

int32_t ScriptDevice::export_handle(uint64_t handle, int32_t handle_type,
                                    cachalot_shareable_handle* out) {
  print("export type " + decimal(handle_type));
  if (handle_type == CACHALOT_HANDLE_FABRIC) {
    fill(out, 0xcd, handle);
    return CACHALOT_DRIVER_SUCCESS;
  }
  const int32_t descriptor = kFirstDescriptor + static_cast<int32_t>(handle);
  if (opens_shared_) open_at(descriptor);
  std::memcpy(out->bytes, &descriptor, sizeof descriptor);
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::ipc_get(cachalot_address address, cachalot_shareable_handle* out) {
  print("ipc_handle " + hex(address));
  fill(out, 0xab, address);
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::ipc_open(const cachalot_shareable_handle& handle,
                               cachalot_address* out_address) {
  cachalot_address shared = 0;
  std::memcpy(&shared, handle.bytes, sizeof shared);
  const auto segment = mallocs_.find(shared);
  if (!opens_shared_ || segment == mallocs_.end())
    return runtime_failure(CACHALOT_DRIVER_NOT_SUPPORTED);
  *out_address = place(kIpcOpen, segment->second);
  opened_.insert(*out_address);
  print("ipc_open " + hex(*out_address));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::ipc_close(cachalot_address address) {
  print("ipc_close " + hex(address));
  opened_.erase(address);
  ranges_.erase(address);
  return CACHALOT_DRIVER_SUCCESS;
}

void ScriptDevice::add_sharing_functions(cachalot_device_ops& ops) {
  ops.ipc_get = [](void* user, int32_t, cachalot_address address, cachalot_shareable_handle* out) {
    return of(user)->ipc_get(address, out);
  };
  ops.ipc_open = [](void* user, int32_t, const cachalot_shareable_handle* handle,
                    cachalot_address* out) { return of(user)->ipc_open(*handle, out); };
  ops.ipc_close = [](void* user, int32_t, cachalot_address address) {
    return of(user)->ipc_close(address);
  };
}

}  // namespace cachalot::differential
