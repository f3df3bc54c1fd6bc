// SPDX-License-Identifier: MIT OR Apache-2.0
// The simulated driver.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "device/device.h"
#include "device/sim_machine.h"
#include "device/sim_segment_handles.h"

namespace cachalot {

// The driver of a simulated machine. It takes each call to the machine's accounts and notes it in
// the machine's log; what its caller controls is the machine. Deterministic.
class SimDriver : public Driver, private MemoryCopies {
 public:
  // Throws Error(kInvalidArgument) for a capacity or a number of devices that is not possible.
  explicit SimDriver(const SimOptions& options = {}) : machine_(options) {}

  SimMachine& machine() { return machine_; }

  // The seam.
  const char* name() const override { return "sim"; }
  int device_count() const override { return machine_.device_count(); }
  bool supports_virtual_memory() const override { return true; }
  bool supports_memory_pools() const override { return true; }

  DriverCode memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) override;
  DriverCode allocate(int device, uint64_t size, Address* address) override;
  DriverCode free(int device, Address address) override;

  DriverCode reserve(int device, uint64_t size, Address* address) override;
  DriverCode unreserve(int device, Address address, uint64_t size) override;
  DriverCode granularity(int device, uint64_t* bytes) override;
  DriverCode create(int device, uint64_t size, HandleType type, bool rdma,
                    uint64_t* handle) override;
  DriverCode export_handle(int device, uint64_t handle, HandleType type,
                           ShareableHandle* out) override;
  DriverCode import_handle(int device, const ShareableHandle& shareable, HandleType type,
                           uint64_t* handle) override;
  DriverCode release(int device, uint64_t handle) override;
  DriverCode map(int device, Address address, uint64_t size, uint64_t handle) override;
  DriverCode unmap(int device, Address address, uint64_t size) override;
  DriverCode set_access(int device, Address address, uint64_t size, int accessing_device) override;
  DriverCode fabric_state(int device, int32_t* state) override;

  DriverCode event_create(int device, uint64_t* event) override;
  DriverCode event_destroy(int device, uint64_t event) override;
  DriverCode event_record(int device, uint64_t event, Stream stream) override;
  DriverCode event_query(int device, uint64_t event) override;
  DriverCode event_synchronize(int device, uint64_t event) override;
  DriverCode stream_synchronize(int device, Stream stream) override;
  DriverCode device_synchronize(int device) override;

  DriverCode capture_info(int device, Stream stream, CaptureInfo* info) override;
  DriverCode node_dependencies(int device, uint64_t node, std::vector<uint64_t>* nodes) override;
  DriverCode exchange_capture_mode(int device, int32_t* mode) override;

  DriverCode pool_allocate(int device, uint64_t size, Stream stream, Address* address) override;
  DriverCode pool_free(int device, Address address, Stream stream) override;
  DriverCode pool_trim(int device, uint64_t keep_bytes) override;
  DriverCode pool_get_attribute(int device, int32_t attribute, uint64_t* value) override;
  DriverCode pool_set_attribute(int device, int32_t attribute, uint64_t value) override;
  DriverCode pool_set_access(int device, int accessing_device) override;
  DriverCode graph_get_attribute(int device, int32_t attribute, uint64_t* value) override;
  DriverCode graph_set_attribute(int device, int32_t attribute, uint64_t value) override;
  DriverCode stream_create(int device, Stream* stream) override;
  DriverCode stream_wait_event(int device, Stream stream, uint64_t event) override;
  DriverCode event_record_all(int device, uint64_t event) override;

  bool has_host_memory() const override { return true; }
  DriverCode host_allocate(uint64_t size, HostMemoryOrigin origin, int register_threads,
                           Address* address) override;
  DriverCode host_free(Address address, HostMemoryOrigin origin) override;

  MemoryCopies* copies() override { return this; }
  DriverCode copy(int device, Address to, Address from, uint64_t size, Stream stream) override;
  DriverCode copy_peer(int to_device, Address to, int from_device, Address from, uint64_t size,
                       Stream stream) override;
  SegmentHandles* segment_handles() override { return &segment_handles_; }

  DriverCode enable_peer(int device, int peer) override;
  std::vector<DeviceProcess> processes(int device) override;
  DriverCode take_pending_error(int device) override;
  std::string error_text(DriverCode code) override;

 private:
  using Device = SimMachine::Device;
  using Lock = SimMachine::Lock;
  using Hex = SimLog::Hex;
  using Outcome = SimLog::Outcome;

  // Handles of streams that are made here.
  static constexpr Stream kStreamBase = 0x500000;
  static constexpr Stream kStreamStep = 0x1000;

  Device& at(int device) { return machine_.at(device); }
  DriverCode create(Device& device, uint64_t size, HandleType type, uint64_t* handle);

  SimMachine machine_;
  SimSegmentHandles segment_handles_{machine_};
  // Guarded by the machine's lock.
  uint64_t handles_made_ = 0;
  uint64_t streams_made_ = 0;
  int32_t capture_mode_ = 0;
};

}  // namespace cachalot
