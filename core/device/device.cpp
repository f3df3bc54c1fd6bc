// SPDX-License-Identifier: MIT OR Apache-2.0
// Handles, and what a driver answers that does not have a group of calls, or no faster way than another call.
#include "device/device.h"

#include <cstring>

namespace cachalot {

int ShareableHandle::descriptor() const {
  int32_t number = -1;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

ShareableHandle ShareableHandle::of_descriptor(int descriptor) {
  ShareableHandle handle;
  const int32_t number = descriptor;
  std::memcpy(handle.bytes, &number, sizeof number);
  return handle;
}

DriverCode Driver::total_memory(int device, uint64_t* total_bytes) {
  uint64_t free_bytes = 0;
  return memory_info(device, &free_bytes, total_bytes);
}

DriverCode Driver::pool_allocate(int, uint64_t, Stream, Address*) { return kDriverNotSupported; }
DriverCode Driver::pool_free(int, Address, Stream) { return kDriverNotSupported; }
DriverCode Driver::pool_trim(int, uint64_t) { return kDriverNotSupported; }
DriverCode Driver::pool_get_attribute(int, int32_t, uint64_t*) { return kDriverNotSupported; }
DriverCode Driver::pool_set_attribute(int, int32_t, uint64_t) { return kDriverNotSupported; }
DriverCode Driver::pool_set_access(int, int) { return kDriverNotSupported; }
DriverCode Driver::graph_get_attribute(int, int32_t, uint64_t*) { return kDriverNotSupported; }
DriverCode Driver::graph_set_attribute(int, int32_t, uint64_t) { return kDriverNotSupported; }
DriverCode Driver::stream_create(int, Stream*) { return kDriverNotSupported; }
DriverCode Driver::stream_wait_event(int, Stream, uint64_t) { return kDriverNotSupported; }
DriverCode Driver::event_record_all(int, uint64_t) { return kDriverNotSupported; }
DriverCode Driver::host_allocate(uint64_t, HostMemoryOrigin, int, Address*) {
  return kDriverNotSupported;
}
DriverCode Driver::host_free(Address, HostMemoryOrigin) { return kDriverNotSupported; }
DriverCode Driver::fill(int, Address, uint64_t, uint8_t, Stream) { return kDriverNotSupported; }
DriverCode Driver::read(int, Address, uint64_t, void*, Stream) { return kDriverNotSupported; }

}  // namespace cachalot
