// SPDX-License-Identifier: MIT OR Apache-2.0
// How far the device is with its work, without waiting for it [policy P9].
#pragma once

#include <cstdint>
#include <optional>

#include "alloc/native/device_state.h"
#include "alloc/serving/device_event.h"

namespace cachalot {

// Owns an event of all streams. pre of all functions: the whole device, and no capture is under way.
class DeviceProgress : private DeviceOperation {
 public:
  explicit DeviceProgress(DeviceState& device) : DeviceOperation(device), event_(device) {}

  // Asks about the event of an earlier look. If its work is done, or there is none, records another and asks at
  // once. False: the driver refuses.
  bool look();
  // Destroys the event. The next look makes another.
  void destroy_event();
  // The clock of the latest event whose work is done; 0: of none.
  uint64_t done() const { return done_; }

 private:
  bool query();
  bool record();

  DeviceEvent event_;
  std::optional<uint64_t> recorded_;  // the clock then; none: nothing is to be asked
  uint64_t done_ = 0;
};

}  // namespace cachalot
