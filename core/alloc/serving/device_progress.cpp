// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/serving/device_progress.h"

namespace cachalot {

uint64_t DeviceProgress::look() {
  query();
  if (!recorded_) {
    record();
    query();  // the device may have nothing to do
  }
  return done_;
}

// The runtime keeps "not ready" and failures as its last error, which the program must not meet [core 12.5]. An
// error of the device comes again in the next call that needs it.
void DeviceProgress::query() {
  if (!recorded_) return;
  const DriverCode code = driver().event_query(device_.index, event_.handle());
  if (code != kSuccess) driver().take_pending_error(device_.index);
  if (code == kNotReady) return;
  if (code == kSuccess) done_ = *recorded_;
  recorded_.reset();
}

// Where the driver refuses nothing is known of the work.
void DeviceProgress::record() {
  DriverCode code = event_.create();
  if (code == kSuccess) code = driver().event_record_all(device_.index, event_.handle());
  if (code != kSuccess) {
    driver().take_pending_error(device_.index);
    return;
  }
  recorded_ = device_.settings.clock();
  device_.settings.tick();  // work that is queued from here on has a later stamp
}

}  // namespace cachalot
