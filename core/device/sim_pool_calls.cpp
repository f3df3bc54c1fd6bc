// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of the seam for stream-ordered memory.
#include "device/sim_driver.h"

namespace cachalot {

DriverCode SimDriver::pool_allocate(int device, uint64_t size, Stream stream, Address* address) {
  const Lock lock = machine_.enter(SimCall::kPoolAllocate);
  Device& target = at(device);
  DriverCode code = machine_.due(SimCall::kPoolAllocate);
  if (code == kSuccess) code = target.pool.allocate(target.memory, size, address);
  if (code == kSuccess) {
    machine_.log().add(kLogCalls, "malloc_async ", size, " ", Hex{stream}, " ", Hex{*address});
  } else {
    machine_.log().add(kLogCalls, "malloc_async ", size, " ", Hex{stream}, Outcome{code});
  }
  return code;
}

DriverCode SimDriver::pool_free(int device, Address address, Stream stream) {
  const Lock lock = machine_.enter(SimCall::kPoolFree);
  Device& target = at(device);
  const DriverCode failure = machine_.due(SimCall::kPoolFree);
  if (failure == kSuccess) {
    const DriverCode code = target.pool.free(target.memory, address);
    if (code != kSuccess) return code;  // A refused free leaves no line.
  }
  machine_.log().add(kLogCalls, "free_async ", Hex{address}, " ", Hex{stream}, Outcome{failure});
  return failure;
}

DriverCode SimDriver::pool_trim(int device, uint64_t keep_bytes) {
  const Lock lock = machine_.enter(SimCall::kPoolTrim);
  const DriverCode code = machine_.due(SimCall::kPoolTrim);
  machine_.log().add(kLogCalls, "pool_trim ", keep_bytes, Outcome{code});
  if (code == kSuccess) at(device).pool.trim(keep_bytes);
  return code;
}

DriverCode SimDriver::pool_get_attribute(int device, int32_t attribute, uint64_t* value) {
  const Lock lock = machine_.enter(SimCall::kPoolAttribute);
  const DriverCode code = machine_.due(SimCall::kPoolAttribute);
  return code == kSuccess ? at(device).pool.get_attribute(attribute, value) : code;
}

DriverCode SimDriver::pool_set_attribute(int device, int32_t attribute, uint64_t value) {
  const Lock lock = machine_.enter(SimCall::kPoolAttribute);
  const DriverCode code = machine_.due(SimCall::kPoolAttribute);
  machine_.log().add(kLogCalls, "pool_attribute ", attribute, " ", value, Outcome{code});
  if (code == kSuccess) at(device).pool.set_attribute(attribute);
  return code;
}

DriverCode SimDriver::pool_set_access(int device, int accessing_device) {
  const Lock lock = machine_.enter(SimCall::kPoolSetAccess);
  const DriverCode code = machine_.due(SimCall::kPoolSetAccess);
  if (device_count() > 1) {
    machine_.log().add(kLogCalls, "pool_access ", device, " ", accessing_device, Outcome{code});
  } else {
    machine_.log().add(kLogCalls, "pool_access", Outcome{code});
  }
  return code;
}

DriverCode SimDriver::graph_get_attribute(int device, int32_t attribute, uint64_t* value) {
  const Lock lock = machine_.enter(SimCall::kPoolAttribute);
  const DriverCode code = machine_.due(SimCall::kPoolAttribute);
  return code == kSuccess ? at(device).pool.get_graph_attribute(attribute, value) : code;
}

DriverCode SimDriver::graph_set_attribute(int device, int32_t attribute, uint64_t value) {
  const Lock lock = machine_.enter(SimCall::kPoolAttribute);
  const DriverCode code = machine_.due(SimCall::kPoolAttribute);
  machine_.log().add(kLogCalls, "graph_attribute ", attribute, " ", value, Outcome{code});
  if (code == kSuccess) at(device).pool.set_graph_attribute(attribute);
  return code;
}

DriverCode SimDriver::stream_create(int, Stream* stream) {
  const Lock lock = machine_.enter(SimCall::kStreamCreate);
  const DriverCode code = machine_.due(SimCall::kStreamCreate);
  if (code == kSuccess) *stream = kStreamBase + ++streams_made_ * kStreamStep;
  return code;
}

// Events say how far a stream has come; that another one waits changes no account.
DriverCode SimDriver::stream_wait_event(int device, Stream stream, uint64_t event) {
  const Lock lock = machine_.enter(SimCall::kStreamWait);
  DriverCode code = machine_.due(SimCall::kStreamWait);
  if (code == kSuccess && !at(device).streams.event_stream(event)) code = kInvalidValue;
  machine_.log().add(kLogWaits, "stream_wait ", Hex{stream}, Outcome{code});
  return code;
}

}  // namespace cachalot
