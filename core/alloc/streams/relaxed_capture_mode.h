// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeps the allocator's own driver calls out of graphs that programs capture.
#pragma once

#include "device/device.h"

namespace cachalot {

// The driver forbids allocations and waits to a thread that captures, and to all threads during a
// capture in global mode. The relaxed mode of a thread lifts that.
// The mode belongs to the thread, so it is put back on the same thread, by the same exchange.
class RelaxedCaptureMode {
 public:
  RelaxedCaptureMode(Driver& driver, int device, bool needed)
      : driver_(driver), device_(device), needed_(needed) {
    if (needed_) driver_.exchange_capture_mode(device_, &mode_);
  }
  ~RelaxedCaptureMode() {
    if (needed_) driver_.exchange_capture_mode(device_, &mode_);
  }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

 private:
  Driver& driver_;
  int device_;
  bool needed_;
  int32_t mode_ = kRelaxedCaptureMode;
};

}  // namespace cachalot
