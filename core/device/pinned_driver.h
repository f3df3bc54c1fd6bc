// SPDX-License-Identifier: MIT OR Apache-2.0
// The pinned host memory of another driver as the memory of one device, so that a cache of a device
// can hold it: one allocator serves the streams of all devices.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/call_times.h"
#include "base/mutex.h"
#include "device/device.h"

namespace cachalot {

class PinnedDriver final : public Driver {
 public:
  // pre: the driver has pinned memory.
  explicit PinnedDriver(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}

  // The stream of requests: no device has work on it.
  static constexpr Stream kHost = Stream{1} << 62;
  // What a stream of a device is called here. pre: the device exists, and the stream is resolved.
  Stream stream_of(int device, Stream stream);

  struct Times {
    CallTimes allocate;
    CallTimes free;
  };
  Times times();
  void reset_times();

  const char* name() const override { return "pinned"; }
  int device_count() const override { return 1; }
  bool supports_virtual_memory() const override { return false; }
  bool supports_memory_pools() const override { return false; }

  // Of the machine.
  DriverCode memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) override;
  DriverCode allocate(int device, uint64_t size, Address* address) override;
  DriverCode free(int device, Address address) override;

  DriverCode reserve(int, uint64_t, Address*) override { return kDriverNotSupported; }
  DriverCode unreserve(int, Address, uint64_t) override { return kDriverNotSupported; }
  DriverCode granularity(int, uint64_t*) override { return kDriverNotSupported; }
  DriverCode create(int, uint64_t, HandleType, bool, uint64_t*) override {
    return kDriverNotSupported;
  }
  DriverCode export_handle(int, uint64_t, HandleType, ShareableHandle*) override {
    return kDriverNotSupported;
  }
  DriverCode import_handle(int, const ShareableHandle&, HandleType, uint64_t*) override {
    return kDriverNotSupported;
  }
  DriverCode release(int, uint64_t) override { return kDriverNotSupported; }
  DriverCode map(int, Address, uint64_t, uint64_t) override { return kDriverNotSupported; }
  DriverCode unmap(int, Address, uint64_t) override { return kDriverNotSupported; }
  DriverCode set_access(int, Address, uint64_t, int) override { return kDriverNotSupported; }
  DriverCode fabric_state(int, int32_t*) override { return kDriverNotSupported; }

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

  DriverCode enable_peer(int, int) override { return kSuccess; }
  std::vector<DeviceProcess> processes(int) override { return {}; }
  DriverCode take_pending_error(int device) override { return driver_->take_pending_error(device); }
  std::string error_text(DriverCode code) override { return driver_->error_text(code); }

 private:
  // A stream, or an event, of a device.
  struct Place {
    int device = 0;
    uint64_t handle = 0;
  };

  Place place_of(Stream stream);
  Place place_of_event(uint64_t event);

  const std::shared_ptr<Driver> driver_;
  Mutex lock_{LockRank::kPinnedDriver};
  // Streams of device 0 have their own names; those of others are numbered.
  std::map<std::pair<int, Stream>, Stream> names_;
  std::vector<Place> named_;
  // By name. An event is made where it is recorded first, since only then its device is known.
  std::unordered_map<uint64_t, Place> events_;
  uint64_t events_made_ = 0;
  Times times_;
};

}  // namespace cachalot
