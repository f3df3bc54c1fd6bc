// SPDX-License-Identifier: MIT OR Apache-2.0
// What the allocator does by itself is no part of a graph that somebody captures.
#pragma once

#include "device/device.h"

namespace cachalot {

// Driver allocations and waits are forbidden in a captured thread, and while others capture in
// global mode, unless the thread says that they are not part of the graph.
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
