// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of the seam, except those for stream-ordered memory (sim_pool_calls.cpp).
#include "device/sim_driver.h"

#include <cstring>
#include <utility>

#include "device/error_text.h"
#include "device/memory_file.h"

namespace cachalot {
namespace {

// The unit of physical memory, as on a real device.
constexpr uint64_t kGranularity = 2 * MiB;

// What another process gets: a fabric handle, or a descriptor, which has to exist since its owner closes it.
DriverCode shareable(uint64_t handle, HandleType type, ShareableHandle* out) {
  if (type == HandleType::kFabric) {
    *out = sim_handle(handle, 0xcd);
    return kSuccess;
  }
  const MemoryFile page = MemoryFile::create(1);
  const int descriptor = page.is_open() ? page.new_descriptor() : -1;
  if (descriptor < 0) return kDriverOutOfMemory;
  *out = ShareableHandle::of_descriptor(descriptor);
  return kSuccess;
}

}  // namespace

// ---- Memory

DriverCode SimDriver::memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  const Lock lock = machine_.enter(SimCall::kMemoryInfo);
  if (const DriverCode code = machine_.due(SimCall::kMemoryInfo)) return code;
  *free_bytes = at(device).memory.free_bytes();
  *total_bytes = at(device).memory.total_bytes();
  return kSuccess;
}

DriverCode SimDriver::allocate(int device, uint64_t size, Address* address) {
  const Lock lock = machine_.enter(SimCall::kAllocate);
  DriverCode code = machine_.due(SimCall::kAllocate);
  if (code == kSuccess) code = at(device).memory.allocate(size, address);
  if (code == kSuccess) {
    machine_.log().add(kLogCalls, "malloc ", size, " ", Hex{*address});
  } else {
    machine_.log().add(kLogCalls, "malloc ", size, Outcome{code});
  }
  return code;
}

DriverCode SimDriver::free(int device, Address address) {
  if (address == 0) return kSuccess;
  const Lock lock = machine_.enter(SimCall::kFree);
  const DriverCode failure = machine_.due(SimCall::kFree);
  if (failure == kSuccess) {
    const DriverCode code = at(device).memory.free(address);
    if (code != kSuccess) return code;  // A refused free leaves no line.
  }
  machine_.log().add(kLogCalls, "free ", Hex{address}, Outcome{failure});
  return failure;
}

// ---- Pinned memory, the only memory here that can be touched. Its addresses are the system's, so the log has none.

DriverCode SimDriver::host_allocate(uint64_t size, HostMemoryOrigin origin, int, Address* address) {
  const Lock lock = machine_.enter(SimCall::kHostAllocate);
  DriverCode code = machine_.due(SimCall::kHostAllocate);
  if (code == kSuccess) code = machine_.pinned_memory().allocate(size, address);
  machine_.log().add(kLogCalls,
                     origin == HostMemoryOrigin::kRegistered ? "host_register " : "host_alloc ",
                     size, Outcome{code});
  return code;
}

DriverCode SimDriver::host_free(Address address, HostMemoryOrigin origin) {
  const Lock lock = machine_.enter(SimCall::kHostFree);
  const DriverCode failure = machine_.due(SimCall::kHostFree);
  if (failure == kSuccess) {
    const DriverCode code = machine_.pinned_memory().free(address);
    if (code != kSuccess) return code;  // A refused free leaves no line.
  }
  machine_.log().add(kLogCalls,
                     origin == HostMemoryOrigin::kRegistered ? "host_unregister" : "host_free",
                     Outcome{failure});
  return failure;
}

// ---- Copies. Memory of devices has no contents here.

DriverCode SimDriver::copy(int, Address, Address, uint64_t size, Stream stream) {
  const Lock lock = machine_.enter(SimCall::kCopy);
  const DriverCode code = machine_.due(SimCall::kCopy);
  machine_.log().add(kLogCalls, "copy ", size, " ", Hex{stream}, Outcome{code});
  return code;
}

DriverCode SimDriver::copy_peer(int to_device, Address, int from_device, Address, uint64_t size,
                                Stream stream) {
  const Lock lock = machine_.enter(SimCall::kCopy);
  const DriverCode code = machine_.due(SimCall::kCopy);
  machine_.log().add(kLogCalls, "copy_peer ", to_device, " ", from_device, " ", size, " ",
                     Hex{stream}, Outcome{code});
  return code;
}

// ---- Virtual memory

DriverCode SimDriver::reserve(int device, uint64_t size, Address* address) {
  const Lock lock = machine_.enter(SimCall::kReserve);
  DriverCode code = machine_.due(SimCall::kReserve);
  if (code == kSuccess) code = at(device).memory.reserve(size, address);
  if (code == kSuccess) {
    machine_.log().add(kLogCalls, "reserve ", size, " ", Hex{*address});
  } else {
    machine_.log().add(kLogCalls, "reserve ", size, Outcome{code});
  }
  return code;
}

DriverCode SimDriver::unreserve(int device, Address address, uint64_t size) {
  const Lock lock = machine_.enter(SimCall::kUnreserve);
  DriverCode code = machine_.due(SimCall::kUnreserve);
  if (code == kSuccess) code = at(device).memory.unreserve(address, size);
  machine_.log().add(kLogCalls, "unreserve ", Hex{address}, " ", size, Outcome{code});
  return code;
}

DriverCode SimDriver::granularity(int, uint64_t* bytes) {
  *bytes = kGranularity;
  return kSuccess;
}

DriverCode SimDriver::create(int device, uint64_t size, HandleType type, bool rdma,
                             uint64_t* handle) {
  const Lock lock = machine_.enter(SimCall::kCreate);
  machine_.log().add(kLogHandles, "handle type ", static_cast<int>(type), " rdma ", rdma ? 1 : 0,
                     " device ", device);
  const DriverCode code = create(at(device), size, type, handle);
  machine_.log().add(kLogCalls, "create ", size, Outcome{code});
  return code;
}

// The checks in the order in which a device makes them: each counts as a call for those behind it
// only if it lets the call pass.
DriverCode SimDriver::create(Device& device, uint64_t size, HandleType type, uint64_t* handle) {
  if (size % kGranularity != 0) return kInvalidValue;
  if (type == HandleType::kFabric && device.fabric_create_code != kSuccess) {
    return device.fabric_create_code;
  }
  if (const DriverCode code = machine_.due(SimCall::kCreate)) return code;
  const DriverCode code = device.memory.create(size, handles_made_ + 1);
  if (code == kSuccess) *handle = ++handles_made_;
  return code;
}

DriverCode SimDriver::export_handle(int device, uint64_t handle, HandleType type,
                                    ShareableHandle* out) {
  const Lock lock = machine_.enter(SimCall::kExport);
  DriverCode code = machine_.due(SimCall::kExport);
  if (code == kSuccess && !at(device).memory.has_handle(handle)) code = kInvalidValue;
  if (code == kSuccess) code = shareable(handle, type, out);
  machine_.log().add(kLogCalls, "export type ", static_cast<int>(type), Outcome{code});
  return code;
}

DriverCode SimDriver::import_handle(int device, const ShareableHandle&, HandleType type,
                                    uint64_t* handle) {
  const Lock lock = machine_.enter(SimCall::kImport);
  const DriverCode code = machine_.due(SimCall::kImport);
  machine_.log().add(kLogCalls, "import type ", static_cast<int>(type), Outcome{code});
  if (code != kSuccess) return code;
  *handle = ++handles_made_;
  at(device).memory.import(*handle);
  return kSuccess;
}

DriverCode SimDriver::release(int device, uint64_t handle) {
  const Lock lock = machine_.enter(SimCall::kRelease);
  DriverCode code = machine_.due(SimCall::kRelease);
  if (code == kSuccess) code = at(device).memory.release(handle);
  machine_.log().add(kLogCalls, "release", Outcome{code});
  return code;
}

DriverCode SimDriver::map(int device, Address address, uint64_t size, uint64_t handle) {
  const Lock lock = machine_.enter(SimCall::kMap);
  DriverCode code = machine_.due(SimCall::kMap);
  if (code == kSuccess) code = at(device).memory.map(address, size, handle);
  machine_.log().add(kLogCalls, "map ", Hex{address}, " ", size, Outcome{code});
  return code;
}

DriverCode SimDriver::unmap(int device, Address address, uint64_t size) {
  const Lock lock = machine_.enter(SimCall::kUnmap);
  DriverCode code = machine_.due(SimCall::kUnmap);
  if (code == kSuccess) code = at(device).memory.unmap(address, size);
  machine_.log().add(kLogCalls, "unmap ", Hex{address}, " ", size, Outcome{code});
  return code;
}

DriverCode SimDriver::set_access(int, Address address, uint64_t size, int accessing_device) {
  const Lock lock = machine_.enter(SimCall::kSetAccess);
  const DriverCode code = machine_.due(SimCall::kSetAccess);
  if (device_count() > 1) {
    machine_.log().add(kLogCalls, "access ", Hex{address}, " ", size, " device ", accessing_device,
                       Outcome{code});
  } else {
    machine_.log().add(kLogCalls, "access ", Hex{address}, " ", size, Outcome{code});
  }
  return code;
}

DriverCode SimDriver::fabric_state(int device, int32_t* state) {
  const Lock lock = machine_.enter(SimCall::kFabricState);
  if (const DriverCode code = machine_.due(SimCall::kFabricState)) return code;
  if (at(device).fabric_state < 0) return kDriverNotSupported;
  *state = at(device).fabric_state;
  return kSuccess;
}

// ---- Events and waiting

DriverCode SimDriver::event_create(int device, uint64_t* event) {
  const Lock lock = machine_.enter(SimCall::kEventCreate);
  const DriverCode code = machine_.due(SimCall::kEventCreate);
  machine_.log().add(kLogCalls, "event_create", Outcome{code});
  if (code == kSuccess) *event = at(device).streams.create_event();
  return code;
}

DriverCode SimDriver::event_destroy(int device, uint64_t event) {
  const Lock lock = machine_.enter();
  if (!at(device).streams.destroy_event(event)) return kInvalidValue;
  machine_.log().add(kLogCalls, "event_destroy");
  return kSuccess;
}

DriverCode SimDriver::event_record(int device, uint64_t event, Stream stream) {
  const Lock lock = machine_.enter(SimCall::kEventRecord);
  DriverCode code = machine_.due(SimCall::kEventRecord);
  if (code == kSuccess && !at(device).streams.record_event(event, stream)) code = kInvalidValue;
  machine_.log().add(kLogCalls, "event_record ", Hex{stream}, Outcome{code});
  return code;
}

DriverCode SimDriver::event_record_all(int device, uint64_t event) {
  const Lock lock = machine_.enter(SimCall::kEventRecord);
  DriverCode code = machine_.due(SimCall::kEventRecord);
  if (code == kSuccess && !at(device).streams.record_event(event, kAllStreams))
    code = kInvalidValue;
  machine_.log().add(kLogCalls, "event_record_all", Outcome{code});
  return code;
}

DriverCode SimDriver::event_query(int device, uint64_t event) {
  const Lock lock = machine_.enter(SimCall::kEventQuery);
  const SimStreams& streams = at(device).streams;
  const auto stream = streams.event_stream(event);
  if (!stream) return kInvalidValue;
  const DriverCode code = machine_.due(SimCall::kEventQuery);
  machine_.log().add(kLogQueries, "event_query ", Hex{*stream}, Outcome{code});
  if (code != kSuccess) return code;
  return streams.is_event_done(event) ? kSuccess : kNotReady;
}

DriverCode SimDriver::event_synchronize(int device, uint64_t event) {
  const Lock lock = machine_.enter(SimCall::kEventSynchronize);
  SimStreams& streams = at(device).streams;
  const auto stream = streams.event_stream(event);
  if (!stream) return kInvalidValue;
  const DriverCode code = machine_.due(SimCall::kEventSynchronize);
  machine_.log().add(kLogCalls, "event_sync ", Hex{*stream}, Outcome{code});
  if (code == kSuccess) streams.finish_event(event);
  return code;
}

DriverCode SimDriver::stream_synchronize(int device, Stream stream) {
  const Lock lock = machine_.enter(SimCall::kSynchronize);
  const DriverCode code = machine_.due(SimCall::kSynchronize);
  machine_.log().add(kLogCalls, "stream_sync ", Hex{stream}, Outcome{code});
  if (code == kSuccess) at(device).streams.finish(stream);
  return code;
}

DriverCode SimDriver::device_synchronize(int device) {
  const Lock lock = machine_.enter(SimCall::kSynchronize);
  const DriverCode code = machine_.due(SimCall::kSynchronize);
  machine_.log().add(kLogCalls, "device_sync", Outcome{code});
  if (code == kSuccess) at(device).streams.finish_all();
  return code;
}

// ---- Captures

DriverCode SimDriver::capture_info(int device, Stream stream, CaptureInfo* info) {
  const Lock lock = machine_.enter(SimCall::kCaptureInfo);
  if (const DriverCode code = machine_.due(SimCall::kCaptureInfo)) return code;
  *info = at(device).captures.info(stream);
  return kSuccess;
}

DriverCode SimDriver::node_dependencies(int device, uint64_t node, std::vector<uint64_t>* nodes) {
  const Lock lock = machine_.enter();
  *nodes = at(device).captures.dependencies(node);
  return kSuccess;
}

DriverCode SimDriver::exchange_capture_mode(int, int32_t* mode) {
  const Lock lock = machine_.enter();
  std::swap(capture_mode_, *mode);
  machine_.log().add(kLogCaptureModes, "capture_mode ", capture_mode_);
  return kSuccess;
}

// ---- The rest

DriverCode SimDriver::enable_peer(int device, int peer) {
  const Lock lock = machine_.enter(SimCall::kEnablePeer);
  const DriverCode code = machine_.due(SimCall::kEnablePeer);
  machine_.log().add(kLogCalls, "peer_access ", device, " ", peer, Outcome{code});
  return code;
}

std::vector<DeviceProcess> SimDriver::processes(int device) {
  const Lock lock = machine_.enter();
  return at(device).processes;
}

DriverCode SimDriver::take_pending_error(int) {
  const Lock lock = machine_.enter();
  return machine_.take_pending_error();
}

std::string SimDriver::error_text(DriverCode code) { return common_error_text(code); }

}  // namespace cachalot
