// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned host memory of the device.
#include "arguments.h"
#include "script_device.h"

namespace cachalot::differential {
// The memory of the machine, of which the device's is no part.
int32_t ScriptDevice::host_allocate(uint64_t size, bool is_registered,
                                    cachalot_address* out_address) {
  constexpr uint64_t kMostAtOnce = uint64_t{1} << 40;
  const std::string call =
      (is_registered ? "host_register " : "host_alloc ") + decimal(size) + " 0 ";
  if (const int32_t code = allocation_error_.take()) {
    print(call + "error " + decimal(code));
    return runtime_failure(code);
  }
  if (refuses(0) || (size > kMostAtOnce && !is_registered)) {
    print(call + "oom");
    return runtime_failure(CACHALOT_DRIVER_OUT_OF_MEMORY);
  }
  *out_address = place(is_registered ? kRegistered : kHostAlloc, size);
  host_blocks_[*out_address] = size;
  print(call + hex(*out_address));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::host_free(cachalot_address address, bool is_registered) {
  const std::string call = (is_registered ? "host_unregister " : "host_free ") + hex(address);
  if (const int32_t code = host_free_error_.take()) {
    print(call + " error " + decimal(code));
    return runtime_failure(code);
  }
  if (host_blocks_.erase(address) == 0) return runtime_failure(CACHALOT_DRIVER_INVALID_VALUE);
  ranges_.erase(address);
  print(call);
  return CACHALOT_DRIVER_SUCCESS;
}

void ScriptDevice::add_host_functions(cachalot_device_ops& ops) {
  ops.host_allocate = [](void* user, int32_t, uint64_t size, int32_t register_threads,
                         cachalot_address* out) {
    return of(user)->host_allocate(size, register_threads != 0, out);
  };
  ops.host_free = [](void* user, int32_t, cachalot_address address, int32_t registered) {
    return of(user)->host_free(address, registered != 0);
  };
}

}  // namespace cachalot::differential
