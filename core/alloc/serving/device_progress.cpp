// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/serving/device_progress.h"

namespace cachalot {

bool DeviceProgress::look() {
  if (!query()) return false;
  if (recorded_) return true;
  return record() && query();  // the device may have nothing to do
}

// What it was recorded for stays unanswered: a later event covers that work too.
void DeviceProgress::destroy_event() {
  recorded_.reset();
  event_.destroy();
}

// False: the driver refuses (here and below). The runtime keeps "not ready" and failures as its last error,
// which the program must not meet [core 12.5]. An error of the device comes again in the next call that
// needs it.
bool DeviceProgress::query() {
  if (!recorded_) return true;
  const DriverCode code = driver().event_query(device_.index, event_.handle());
  if (code != kSuccess) driver().take_pending_error(device_.index);
  if (code == kNotReady) return true;
  if (code == kSuccess) done_ = *recorded_;
  recorded_.reset();
  return code == kSuccess;
}

bool DeviceProgress::record() {
  DriverCode code = event_.create();
  if (code == kSuccess) code = driver().event_record_all(device_.index, event_.handle());
  if (code != kSuccess) {
    driver().take_pending_error(device_.index);
    return false;
  }
  recorded_ = device_.settings.clock();
  device_.settings.tick();  // work that is queued from here on has a later stamp
  return true;
}

}  // namespace cachalot
