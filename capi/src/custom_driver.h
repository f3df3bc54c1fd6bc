// SPDX-License-Identifier: MIT OR Apache-2.0
// A driver made of the caller's functions.
#pragma once

#include <string>
#include <vector>

#include "base/assert.h"
#include "cachalot/driver.h"
#include "device/device.h"
#include "guard.h"

namespace cachalot::capi {

// Calls must at least know the functions that are needed.
template <>
inline constexpr size_t kFirstSize<cachalot_device_ops> = offsetof(cachalot_device_ops, reserve);

// The caller's data, which is given back once, whatever happens.
class UserData {
 public:
  UserData(void* data, void (*destroy)(void*)) : data_(data), destroy_(destroy) {}
  UserData(UserData&& other) noexcept
      : data_(other.data_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  UserData& operator=(UserData&&) = delete;
  ~UserData() {
    if (destroy_ != nullptr) destroy_(data_);
  }

  void* get() const { return data_; }

 private:
  void* data_;
  void (*destroy_)(void*);
};

class CustomDriver final : public Driver, private MemoryCopies {
 public:
  // Throws Error(kInvalidArgument) for a missing function or an impossible number of devices.
  CustomDriver(const cachalot_device_ops& ops, int device_count, UserData user_data);

  const char* name() const override { return "custom"; }
  int device_count() const override { return device_count_; }
  bool supports_virtual_memory() const override { return ops_.reserve != nullptr; }
  bool supports_memory_pools() const override { return ops_.pool_allocate != nullptr; }

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

  bool has_host_memory() const override { return ops_.host_allocate != nullptr; }
  DriverCode host_allocate(uint64_t size, HostMemoryOrigin origin, int register_threads,
                           Address* address) override;
  DriverCode host_free(Address address, HostMemoryOrigin origin) override;

  MemoryCopies* copies() override { return ops_.copy != nullptr ? this : nullptr; }
  DriverCode copy(int device, Address to, Address from, uint64_t size, Stream stream) override;
  DriverCode copy_peer(int to_device, Address to, int from_device, Address from, uint64_t size,
                       Stream stream) override;
  // Also where the caller has handles of pages only.
  SegmentHandles* segment_handles() override {
    return ops_.ipc_get != nullptr || ops_.export_handle != nullptr ? &handles_ : nullptr;
  }

  DriverCode enable_peer(int device, int peer) override;
  std::vector<DeviceProcess> processes(int device) override;
  DriverCode take_pending_error(int device) override;
  std::string error_text(DriverCode code) override;

 private:
  class Handles final : public SegmentHandles {
   public:
    explicit Handles(CustomDriver& driver) : driver_(driver) {}
    DriverCode get(int device, Address address, ShareableHandle* handle) override;
    DriverCode open(int device, const ShareableHandle& handle, Address* address) override;
    DriverCode close(int device, Address address) override;

   private:
    CustomDriver& driver_;
  };

  // What the function returns, or `missing` where the caller has none.
  template <class... Parameters, class... Arguments>
  DriverCode call(int32_t (*function)(void*, int32_t, Parameters...), DriverCode missing,
                  int device, Arguments... arguments) {
    CACHALOT_ASSERT(1, device >= 0 && device < device_count_);
    return function == nullptr ? missing : function(user_data_.get(), device, arguments...);
  }

  const UserData user_data_;
  const cachalot_device_ops ops_;
  const int device_count_;
  Handles handles_{*this};
};

}  // namespace cachalot::capi
