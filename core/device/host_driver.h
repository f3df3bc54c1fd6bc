// SPDX-License-Identifier: MIT OR Apache-2.0
// The host driver: devices made of ordinary memory, so that everything runs without a GPU.
// Addresses can be read and written, and work is done when a call returns: streams have no meaning.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/units.h"
#include "device/device.h"

namespace cachalot {

class HostMemory;

struct HostOptions {
  uint64_t capacity = 4 * GiB;  // of each device; only touched memory is taken from the system
  int device_count = 1;
  bool is_shared = false;  // Note [Memory for other processes] (host_memory.h)
};

class HostDriver final : public Driver, private MemoryCopies {
 public:
  // Throws Error(kInvalidArgument) for a number of devices that is not possible.
  explicit HostDriver(const HostOptions& options = {});
  ~HostDriver() override;

  const char* name() const override { return "host"; }
  int device_count() const override { return static_cast<int>(devices_.size()); }
  bool supports_virtual_memory() const override { return true; }
  bool supports_memory_pools() const override { return false; }

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
  DriverCode event_record_all(int device, uint64_t event) override;
  DriverCode event_query(int device, uint64_t event) override;
  DriverCode event_synchronize(int device, uint64_t event) override;
  DriverCode stream_synchronize(int device, Stream stream) override;
  DriverCode device_synchronize(int device) override;

  DriverCode capture_info(int device, Stream stream, CaptureInfo* info) override;
  DriverCode node_dependencies(int device, uint64_t node, std::vector<uint64_t>* nodes) override;
  DriverCode exchange_capture_mode(int device, int32_t* mode) override;

  bool has_host_memory() const override { return true; }
  DriverCode host_allocate(uint64_t size, HostMemoryOrigin origin, int register_threads,
                           Address* address) override;
  DriverCode host_free(Address address, HostMemoryOrigin origin) override;

  bool can_touch_memory() const override { return true; }
  DriverCode fill(int device, Address address, uint64_t size, uint8_t byte, Stream stream) override;
  DriverCode read(int device, Address address, uint64_t size, void* out, Stream stream) override;

  MemoryCopies* copies() override { return this; }
  DriverCode copy(int device, Address to, Address from, uint64_t size, Stream stream) override;
  DriverCode copy_peer(int to_device, Address to, int from_device, Address from, uint64_t size,
                       Stream stream) override;
  SegmentHandles* segment_handles() override;

  DriverCode enable_peer(int device, int peer) override;
  std::vector<DeviceProcess> processes(int device) override;
  std::string error_text(DriverCode code) override;

 private:
  HostMemory& at(int device) const {
    CACHALOT_ASSERT(1, device >= 0 && device < device_count());
    return *devices_[static_cast<size_t>(device)];
  }

  class Handles;

  std::vector<std::unique_ptr<HostMemory>> devices_;
  const std::unique_ptr<Handles> handles_;    // null: memory is not shared
  const std::unique_ptr<HostMemory> pinned_;  // as much as the system gives
};

}  // namespace cachalot
