// SPDX-License-Identifier: MIT OR Apache-2.0
// An event that is created when it is needed first.
#pragma once

#include <cstdint>
#include <optional>

#include "alloc/native/device_state.h"

namespace cachalot {

// Owns the event. pre of all functions but the destructor: the whole device.
class DeviceEvent : private DeviceOperation {
 public:
  explicit DeviceEvent(DeviceState& device) : DeviceOperation(device) {}
  ~DeviceEvent() { destroy(); }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  // The driver's answer; nothing happens where there is an event already.
  DriverCode create() {
    if (handle_) return kSuccess;
    uint64_t handle = 0;
    const DriverCode code = driver().event_create(device_.index, &handle);
    if (code == kSuccess) handle_ = handle;
    return code;
  }
  void destroy() {
    // The answer is ignored: the driver may be shutting down itself.
    if (handle_) driver().event_destroy(device_.index, *handle_);
    handle_.reset();
  }
  // pre: it was created.
  uint64_t handle() const { return *handle_; }

 private:
  std::optional<uint64_t> handle_;
};

}  // namespace cachalot
