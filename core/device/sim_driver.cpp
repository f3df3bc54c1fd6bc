// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of the seam. sim_controls.cpp has what the caller controls.
#include "device/sim_driver.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "device/device_count.h"
#include "device/error_text.h"

namespace cachalot {
namespace {

constexpr Address kFirstAddress = 0x700000000000;
constexpr uint64_t kDeviceStride = uint64_t{1} << 42;
constexpr Address kLastAddress = Address{1} << 62;

// The unit of physical memory, as on a real device.
constexpr uint64_t kGranularity = 2 * MiB;

// The last device has nobody above it to run into.
AddressSpace device_addresses(int device, int device_count) {
  const Address begin = kFirstAddress + kDeviceStride * static_cast<uint64_t>(device);
  return AddressSpace(begin, device + 1 == device_count ? kLastAddress : begin + kDeviceStride);
}

// What another process would get: a file descriptor, or a fabric handle.
ShareableHandle shareable(uint64_t handle, HandleType type) {
  ShareableHandle out;
  if (type == HandleType::kFabric) {
    std::memset(out.bytes, 0xcd, sizeof out.bytes);
    std::memcpy(out.bytes, &handle, sizeof handle);
  } else {
    const int32_t descriptor = 900 + static_cast<int32_t>(handle);
    std::memcpy(out.bytes, &descriptor, sizeof descriptor);
  }
  return out;
}

}  // namespace

uint64_t checked_sim_capacity(uint64_t capacity) {
  if (capacity <= kLargestSimCapacity) return capacity;
  throw_invalid_argument(format("a device of %llu bytes: at most %llu (4 TiB) can be simulated",
                                static_cast<unsigned long long>(capacity),
                                static_cast<unsigned long long>(kLargestSimCapacity)));
}

SimDriver::SimDriver(const SimOptions& options) {
  const uint64_t capacity = checked_sim_capacity(options.capacity);
  const int count = checked_device_count(options.device_count);
  devices_.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; i++) {
    devices_.push_back({SimMemory(capacity, device_addresses(i, count)), {}, {}, {}, {}});
  }
}

SimDriver::Lock SimDriver::enter(SimCall call) {
  latencies_.wait(call);
  return Lock(mutex_);
}

// ---- Memory

DriverCode SimDriver::memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  const Lock lock = enter(SimCall::kMemoryInfo);
  if (const DriverCode code = failures_.due(SimCall::kMemoryInfo)) return code;
  *free_bytes = at(device).memory.free_bytes();
  *total_bytes = at(device).memory.total_bytes();
  return kSuccess;
}

DriverCode SimDriver::allocate(int device, uint64_t size, Address* address) {
  const Lock lock = enter(SimCall::kAllocate);
  DriverCode code = failures_.due(SimCall::kAllocate);
  if (code == kSuccess) code = at(device).memory.allocate(size, address);
  if (code == kSuccess) {
    log_.add(kLogCalls, "malloc ", size, " ", Hex{*address});
  } else {
    log_.add(kLogCalls, "malloc ", size, Outcome{code});
  }
  return code;
}

DriverCode SimDriver::free(int device, Address address) {
  if (address == 0) return kSuccess;
  const Lock lock = enter(SimCall::kFree);
  const DriverCode failure = failures_.due(SimCall::kFree);
  if (failure == kSuccess) {
    const DriverCode code = at(device).memory.free(address);
    if (code != kSuccess) return code;  // A refused free leaves no line.
  }
  log_.add(kLogCalls, "free ", Hex{address}, Outcome{failure});
  return failure;
}

// ---- Virtual memory

DriverCode SimDriver::reserve(int device, uint64_t size, Address* address) {
  const Lock lock = enter(SimCall::kReserve);
  DriverCode code = failures_.due(SimCall::kReserve);
  if (code == kSuccess) code = at(device).memory.reserve(size, address);
  if (code == kSuccess) {
    log_.add(kLogCalls, "reserve ", size, " ", Hex{*address});
  } else {
    log_.add(kLogCalls, "reserve ", size, Outcome{code});
  }
  return code;
}

DriverCode SimDriver::unreserve(int device, Address address, uint64_t size) {
  const Lock lock = enter(SimCall::kUnreserve);
  DriverCode code = failures_.due(SimCall::kUnreserve);
  if (code == kSuccess) code = at(device).memory.unreserve(address, size);
  log_.add(kLogCalls, "unreserve ", Hex{address}, " ", size, Outcome{code});
  return code;
}

DriverCode SimDriver::granularity(int, uint64_t* bytes) {
  *bytes = kGranularity;
  return kSuccess;
}

DriverCode SimDriver::create(int device, uint64_t size, HandleType type, bool rdma,
                             uint64_t* handle) {
  const Lock lock = enter(SimCall::kCreate);
  log_.add(kLogHandles, "handle type ", static_cast<int>(type), " rdma ", rdma ? 1 : 0, " device ",
           device);
  const DriverCode code = create(at(device), size, type, handle);
  log_.add(kLogCalls, "create ", size, Outcome{code});
  return code;
}

// The checks in the order in which a device makes them: each counts as a call for those behind it
// only if it lets the call pass.
DriverCode SimDriver::create(Device& device, uint64_t size, HandleType type, uint64_t* handle) {
  if (size % kGranularity != 0) return kInvalidValue;
  if (type == HandleType::kFabric && device.fabric_create_code != kSuccess) {
    return device.fabric_create_code;
  }
  if (const DriverCode code = failures_.due(SimCall::kCreate)) return code;
  const DriverCode code = device.memory.create(size, handles_made_ + 1);
  if (code == kSuccess) *handle = ++handles_made_;
  return code;
}

DriverCode SimDriver::export_handle(int device, uint64_t handle, HandleType type,
                                    ShareableHandle* out) {
  const Lock lock = enter(SimCall::kExport);
  DriverCode code = failures_.due(SimCall::kExport);
  if (code == kSuccess && !at(device).memory.has_handle(handle)) code = kInvalidValue;
  log_.add(kLogCalls, "export type ", static_cast<int>(type), Outcome{code});
  if (code == kSuccess) *out = shareable(handle, type);
  return code;
}

DriverCode SimDriver::import_handle(int device, const ShareableHandle&, HandleType type,
                                    uint64_t* handle) {
  const Lock lock = enter(SimCall::kImport);
  const DriverCode code = failures_.due(SimCall::kImport);
  log_.add(kLogCalls, "import type ", static_cast<int>(type), Outcome{code});
  if (code != kSuccess) return code;
  *handle = ++handles_made_;
  at(device).memory.import(*handle);
  return kSuccess;
}

DriverCode SimDriver::release(int device, uint64_t handle) {
  const Lock lock = enter(SimCall::kRelease);
  DriverCode code = failures_.due(SimCall::kRelease);
  if (code == kSuccess) code = at(device).memory.release(handle);
  log_.add(kLogCalls, "release", Outcome{code});
  return code;
}

DriverCode SimDriver::map(int device, Address address, uint64_t size, uint64_t handle) {
  const Lock lock = enter(SimCall::kMap);
  DriverCode code = failures_.due(SimCall::kMap);
  if (code == kSuccess) code = at(device).memory.map(address, size, handle);
  log_.add(kLogCalls, "map ", Hex{address}, " ", size, Outcome{code});
  return code;
}

DriverCode SimDriver::unmap(int device, Address address, uint64_t size) {
  const Lock lock = enter(SimCall::kUnmap);
  DriverCode code = failures_.due(SimCall::kUnmap);
  if (code == kSuccess) code = at(device).memory.unmap(address, size);
  log_.add(kLogCalls, "unmap ", Hex{address}, " ", size, Outcome{code});
  return code;
}

DriverCode SimDriver::set_access(int, Address address, uint64_t size, int accessing_device) {
  const Lock lock = enter(SimCall::kSetAccess);
  const DriverCode code = failures_.due(SimCall::kSetAccess);
  if (devices_.size() > 1) {
    log_.add(kLogCalls, "access ", Hex{address}, " ", size, " device ", accessing_device,
             Outcome{code});
  } else {
    log_.add(kLogCalls, "access ", Hex{address}, " ", size, Outcome{code});
  }
  return code;
}

DriverCode SimDriver::fabric_state(int device, int32_t* state) {
  const Lock lock = enter(SimCall::kFabricState);
  if (const DriverCode code = failures_.due(SimCall::kFabricState)) return code;
  if (at(device).fabric_state < 0) return kDriverNotSupported;
  *state = at(device).fabric_state;
  return kSuccess;
}

// ---- Events and waiting

DriverCode SimDriver::event_create(int device, uint64_t* event) {
  const Lock lock = enter(SimCall::kEventCreate);
  const DriverCode code = failures_.due(SimCall::kEventCreate);
  log_.add(kLogCalls, "event_create", Outcome{code});
  if (code == kSuccess) *event = at(device).streams.create_event();
  return code;
}

DriverCode SimDriver::event_destroy(int device, uint64_t event) {
  const Lock lock = enter();
  if (!at(device).streams.destroy_event(event)) return kInvalidValue;
  log_.add(kLogCalls, "event_destroy");
  return kSuccess;
}

DriverCode SimDriver::event_record(int device, uint64_t event, Stream stream) {
  const Lock lock = enter(SimCall::kEventRecord);
  DriverCode code = failures_.due(SimCall::kEventRecord);
  if (code == kSuccess && !at(device).streams.record_event(event, stream)) code = kInvalidValue;
  log_.add(kLogCalls, "event_record ", Hex{stream}, Outcome{code});
  return code;
}

DriverCode SimDriver::event_query(int device, uint64_t event) {
  const Lock lock = enter(SimCall::kEventQuery);
  const SimStreams& streams = at(device).streams;
  const auto stream = streams.event_stream(event);
  if (!stream) return kInvalidValue;
  const DriverCode code = failures_.due(SimCall::kEventQuery);
  log_.add(kLogQueries, "event_query ", Hex{*stream}, Outcome{code});
  if (code != kSuccess) return code;
  return streams.is_event_done(event) ? kSuccess : kNotReady;
}

DriverCode SimDriver::event_synchronize(int device, uint64_t event) {
  const Lock lock = enter(SimCall::kEventSynchronize);
  SimStreams& streams = at(device).streams;
  const auto stream = streams.event_stream(event);
  if (!stream) return kInvalidValue;
  const DriverCode code = failures_.due(SimCall::kEventSynchronize);
  log_.add(kLogCalls, "event_sync ", Hex{*stream}, Outcome{code});
  if (code == kSuccess) streams.finish_event(event);
  return code;
}

DriverCode SimDriver::stream_synchronize(int device, Stream stream) {
  const Lock lock = enter(SimCall::kSynchronize);
  const DriverCode code = failures_.due(SimCall::kSynchronize);
  log_.add(kLogCalls, "stream_sync ", Hex{stream}, Outcome{code});
  if (code == kSuccess) at(device).streams.finish(stream);
  return code;
}

DriverCode SimDriver::device_synchronize(int device) {
  const Lock lock = enter(SimCall::kSynchronize);
  const DriverCode code = failures_.due(SimCall::kSynchronize);
  log_.add(kLogCalls, "device_sync", Outcome{code});
  if (code == kSuccess) at(device).streams.finish_all();
  return code;
}

// ---- Captures

DriverCode SimDriver::capture_info(int device, Stream stream, CaptureInfo* info) {
  const Lock lock = enter(SimCall::kCaptureInfo);
  if (const DriverCode code = failures_.due(SimCall::kCaptureInfo)) return code;
  *info = at(device).captures.info(stream);
  return kSuccess;
}

DriverCode SimDriver::node_dependencies(int device, uint64_t node, std::vector<uint64_t>* nodes) {
  const Lock lock = enter();
  *nodes = at(device).captures.dependencies(node);
  return kSuccess;
}

DriverCode SimDriver::exchange_capture_mode(int, int32_t* mode) {
  const Lock lock = enter();
  std::swap(capture_mode_, *mode);
  log_.add(kLogCaptureModes, "capture_mode ", capture_mode_);
  return kSuccess;
}

// ---- The rest

DriverCode SimDriver::enable_peer(int device, int peer) {
  const Lock lock = enter(SimCall::kEnablePeer);
  const DriverCode code = failures_.due(SimCall::kEnablePeer);
  log_.add(kLogCalls, "peer_access ", device, " ", peer, Outcome{code});
  return code;
}

std::vector<DeviceProcess> SimDriver::processes(int device) {
  const Lock lock = enter();
  return at(device).processes;
}

DriverCode SimDriver::take_pending_error(int) {
  const Lock lock = enter();
  return std::exchange(pending_error_, kSuccess);
}

std::string SimDriver::error_text(DriverCode code) { return common_error_text(code); }

}  // namespace cachalot
