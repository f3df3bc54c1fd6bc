// SPDX-License-Identifier: MIT OR Apache-2.0
// The NVIDIA driver behind the seam. No call depends on what is current on the calling thread or
// changes it.
//
// cuda_library.h opens the driver, cuda_contexts.h makes a device's context current for a call,
// cuda_streams.h says what stream handles mean, cuda_memory_pool.cpp has the stream-ordered calls,
// cuda_host_memory.h has pinned memory, cuda_copies.h the copies.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "device/cuda_contexts.h"
#include "device/cuda_copies.h"
#include "device/cuda_device.h"
#include "device/cuda_host_memory.h"
#include "device/cuda_library.h"
#include "device/cuda_segment_handles.h"
#include "device/device.h"
#include "device/device_cgroup.h"
#include "device/nvml.h"

namespace cachalot {

struct CudaOptions {
  uint64_t capacity = 0;  // bytes that a device is told to have; 0: what it has
  // Where the limits of control groups count; nothing: they are not looked at.
  std::optional<CgroupPlace> cgroups{};
  // The driver's library, where it is loaded under this name; null: where it is usually.
  const char* library = nullptr;
  // Where the caller has one that is to be used.
  std::optional<cuda::GivenContext> context;
};

class CudaDriver final : public Driver {
 public:
  // Throws Error(kDriverUnavailable) where there is no driver or no device.
  explicit CudaDriver(const CudaOptions& options = {});

  const char* name() const override { return "cuda"; }
  int device_count() const override { return static_cast<int>(devices_.size()); }
  bool supports_virtual_memory() const override { return supports_virtual_memory_; }
  bool supports_memory_pools() const override { return supports_memory_pools_; }

  DriverCode memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) override;
  DriverCode total_memory(int device, uint64_t* total_bytes) override;
  bool is_nearly_full(int device) override { return at(device).is_nearly_full(); }
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
  void stream_destroy(int device, Stream stream) override;
  DriverCode stream_wait_event(int device, Stream stream, uint64_t event) override;
  DriverCode event_record_all(int device, uint64_t event) override;

  bool can_touch_memory() const override { return true; }
  DriverCode fill(int device, Address address, uint64_t size, uint8_t byte, Stream stream) override;
  DriverCode read(int device, Address address, uint64_t size, void* out, Stream stream) override;

  MemoryCopies* copies() override { return &copies_; }

  Stream resolve(Stream stream) override;
  Stream user_handle(Stream stream) override;

  bool has_host_memory() const override { return library_.host_memory.has_value(); }
  DriverCode host_allocate(uint64_t size, HostMemoryOrigin origin, int register_threads,
                           Address* address) override {
    return host_memory_.allocate(size, origin, register_threads, address);
  }
  DriverCode host_free(Address address, HostMemoryOrigin origin) override {
    return host_memory_.free(address, origin);
  }

  SegmentHandles* segment_handles() override { return library_.ipc ? &segment_handles_ : nullptr; }

  DriverCode enable_peer(int device, int peer) override;
  void release_context(int device) override { contexts_.release(device); }
  std::vector<DeviceProcess> processes(int device) override;
  DeviceIdentity identity(int device) override { return at(device).identity; }
  std::string error_text(DriverCode code) override;

 private:
  cuda::Device& at(int device) {
    CACHALOT_ASSERT(1, device >= 0 && device < device_count());
    return *devices_[static_cast<size_t>(device)];
  }

  // Makes a call with the device's context current.
  template <class Call>
  DriverCode on(int device, Call call) {
    return cuda::on(library_, contexts_, device, call);
  }

  const cuda::Library library_;
  std::vector<std::unique_ptr<cuda::Device>> devices_;
  bool supports_virtual_memory_ = false;
  bool supports_memory_pools_ = false;
  cuda::Contexts contexts_;
  Nvml nvml_;
  CudaHostMemory host_memory_{library_, contexts_};
  CudaCopies copies_{library_, contexts_};
  CudaSegmentHandles segment_handles_{library_, contexts_};
};

}  // namespace cachalot
