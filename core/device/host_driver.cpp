// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/host_driver.h"

#include <unistd.h>

#include <cstring>

#include "device/device_count.h"
#include "device/error_text.h"
#include "device/host_memory.h"

namespace cachalot {

// Of the devices' memory.
class HostDriver::Handles final : public SegmentHandles {
 public:
  explicit Handles(const HostDriver& driver) : driver_(driver) {}

  DriverCode get(int device, Address address, ShareableHandle* handle) override {
    return driver_.at(device).get_handle(address, handle);
  }
  DriverCode open(int device, const ShareableHandle& handle, Address* address) override {
    return driver_.at(device).open(handle, address);
  }
  DriverCode close(int device, Address address) override {
    return driver_.at(device).close(address);
  }

 private:
  const HostDriver& driver_;
};

HostDriver::HostDriver(const HostOptions& options)
    : handles_(options.is_shared ? std::make_unique<Handles>(*this) : nullptr),
      pinned_(std::make_unique<HostMemory>(kUnlimited)) {
  const int count = checked_device_count(options.device_count);
  for (int i = 0; i < count; i++)
    devices_.push_back(std::make_unique<HostMemory>(options.capacity, options.is_shared));
}

HostDriver::~HostDriver() = default;

SegmentHandles* HostDriver::segment_handles() { return handles_.get(); }

// ---- Memory

DriverCode HostDriver::memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  *total_bytes = at(device).total_bytes();
  *free_bytes = *total_bytes - at(device).used_bytes();
  return kSuccess;
}

DriverCode HostDriver::allocate(int device, uint64_t size, Address* address) {
  if (size == 0) {
    *address = 0;  // as cudaMalloc answers it
    return kSuccess;
  }
  return at(device).allocate(size, address);
}

DriverCode HostDriver::free(int device, Address address) {
  return address == 0 ? kSuccess : at(device).free(address);
}

// ---- Pinned memory, which is memory like any other here

DriverCode HostDriver::host_allocate(uint64_t size, HostMemoryOrigin, int, Address* address) {
  return pinned_->allocate(size, address);
}

DriverCode HostDriver::host_free(Address address, HostMemoryOrigin) {
  return pinned_->free(address);
}

// ---- Virtual memory

DriverCode HostDriver::reserve(int device, uint64_t size, Address* address) {
  return at(device).reserve(size, address);
}

DriverCode HostDriver::unreserve(int device, Address address, uint64_t size) {
  return at(device).unreserve(address, size);
}

DriverCode HostDriver::granularity(int, uint64_t* bytes) {
  *bytes = HostMemory::kGranularity;
  return kSuccess;
}

// A file descriptor may be asked for, as allocators do by default. Where memory is not shared, only the export
// fails.
DriverCode HostDriver::create(int device, uint64_t size, HandleType type, bool, uint64_t* handle) {
  if (type == HandleType::kFabric) return kDriverNotSupported;
  return at(device).create(size, handle);
}

DriverCode HostDriver::export_handle(int device, uint64_t handle, HandleType type,
                                     ShareableHandle* out) {
  if (type != HandleType::kPosixFd) return kDriverNotSupported;
  return at(device).export_page(handle, out);
}

DriverCode HostDriver::import_handle(int device, const ShareableHandle& shareable, HandleType type,
                                     uint64_t* handle) {
  if (type != HandleType::kPosixFd) return kDriverNotSupported;
  return at(device).import_page(shareable, handle);
}

DriverCode HostDriver::release(int device, uint64_t handle) { return at(device).release(handle); }

DriverCode HostDriver::map(int device, Address address, uint64_t size, uint64_t handle) {
  return at(device).map(address, size, handle);
}

DriverCode HostDriver::unmap(int device, Address address, uint64_t size) {
  return at(device).unmap(address, size);
}

// The process has one set of addresses: what one device may touch, all may.
DriverCode HostDriver::set_access(int device, Address address, uint64_t size, int) {
  return at(device).set_access(address, size);
}

DriverCode HostDriver::fabric_state(int, int32_t* state) {
  *state = 0;
  return kSuccess;
}

// ---- Events and waiting: all work is done already

DriverCode HostDriver::event_create(int, uint64_t* event) {
  *event = 1;
  return kSuccess;
}

DriverCode HostDriver::event_destroy(int, uint64_t) { return kSuccess; }
DriverCode HostDriver::event_record(int, uint64_t, Stream) { return kSuccess; }
DriverCode HostDriver::event_record_all(int, uint64_t) { return kSuccess; }
DriverCode HostDriver::event_query(int, uint64_t) { return kSuccess; }
DriverCode HostDriver::event_synchronize(int, uint64_t) { return kSuccess; }
DriverCode HostDriver::stream_synchronize(int, Stream) { return kSuccess; }
DriverCode HostDriver::device_synchronize(int) { return kSuccess; }

// ---- Captures: there are none

DriverCode HostDriver::capture_info(int, Stream, CaptureInfo* info) {
  *info = {};
  return kSuccess;
}

DriverCode HostDriver::node_dependencies(int, uint64_t, std::vector<uint64_t>* nodes) {
  nodes->clear();
  return kSuccess;
}

DriverCode HostDriver::exchange_capture_mode(int, int32_t*) { return kSuccess; }

// ---- Touching memory

DriverCode HostDriver::fill(int, Address address, uint64_t size, uint8_t byte, Stream) {
  std::memset(reinterpret_cast<void*>(address), byte, size);
  return kSuccess;
}

DriverCode HostDriver::read(int, Address address, uint64_t size, void* out, Stream) {
  std::memcpy(out, reinterpret_cast<const void*>(address), size);
  return kSuccess;
}

DriverCode HostDriver::copy(int, Address to, Address from, uint64_t size, Stream) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size);
  return kSuccess;
}

DriverCode HostDriver::copy_peer(int to_device, Address to, int, Address from, uint64_t size,
                                 Stream stream) {
  return copy(to_device, to, from, size, stream);
}

// ---- The rest

DriverCode HostDriver::enable_peer(int, int) { return kSuccess; }

std::vector<DeviceProcess> HostDriver::processes(int device) {
  return {{static_cast<uint64_t>(::getpid()), at(device).used_bytes()}};
}

std::string HostDriver::error_text(DriverCode code) { return common_error_text(code); }

}  // namespace cachalot
