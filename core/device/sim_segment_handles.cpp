// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_segment_handles.h"

#include <cstring>

namespace cachalot {

ShareableHandle sim_handle(uint64_t name, uint8_t filling) {
  ShareableHandle handle;
  std::memset(handle.bytes, filling, sizeof handle.bytes);
  std::memcpy(handle.bytes, &name, sizeof name);
  return handle;
}

DriverCode SimSegmentHandles::get(int device, Address address, ShareableHandle* handle) {
  const SimMachine::Lock lock = machine_.enter(SimCall::kExport);
  DriverCode code = machine_.due(SimCall::kExport);
  if (code == kSuccess && !machine_.at(device).memory.has_allocation(address)) code = kInvalidValue;
  machine_.log().add(kLogCalls, "ipc_handle ", SimLog::Hex{address}, SimLog::Outcome{code});
  if (code == kSuccess) *handle = sim_handle(address, 0xab);
  return code;
}

DriverCode SimSegmentHandles::open(int device, const ShareableHandle& handle, Address* address) {
  const SimMachine::Lock lock = machine_.enter(SimCall::kImport);
  DriverCode code = machine_.due(SimCall::kImport);
  Address shared = 0;
  std::memcpy(&shared, handle.bytes, sizeof shared);
  if (code == kSuccess) code = machine_.at(device).memory.open(shared, address);
  if (code == kSuccess) {
    machine_.log().add(kLogCalls, "ipc_open ", SimLog::Hex{*address});
  } else {
    machine_.log().add(kLogCalls, "ipc_open", SimLog::Outcome{code});
  }
  return code;
}

DriverCode SimSegmentHandles::close(int device, Address address) {
  const SimMachine::Lock lock = machine_.enter(SimCall::kFree);
  DriverCode code = machine_.due(SimCall::kFree);
  if (code == kSuccess) code = machine_.at(device).memory.close(address);
  machine_.log().add(kLogCalls, "ipc_close ", SimLog::Hex{address}, SimLog::Outcome{code});
  return code;
}

}  // namespace cachalot
