// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether streams of one device are being captured into graphs (R10).
#pragma once

#include <optional>

#include "alloc/config/rules.h"
#include "alloc/sync/slow_path_flags.h"
#include "device/device.h"

namespace cachalot {

// Owns the number of marked captures; the state of a stream is the driver's. Invariant:
// kMarkedCapture is set exactly while a capture is marked.
class Captures : private SlowPath {
 public:
  Captures(Driver& driver, const Rules& rules, int device, SlowPathFlags& flags)
      : driver_(driver), rules_(rules), device_(device), flags_(flags) {}

  // Marks of a capture, which 2.11 does not know: there they change nothing. pre: the whole device.
  void begin();
  void end();

  // Asks the driver, but not about kAllStreams, which no capture has.
  bool is_capturing(Stream stream) const;
  CaptureInfo info(Stream stream) const;
  // Whether a call counts as made during a capture. No stream: one that is not captured. Before R10 any
  // routing counts as a capture, also that to a user's pool.
  bool is_capture_context(std::optional<Stream> current_stream) const;
  // Whether a call may count as made during a capture, without asking the driver. Any thread.
  bool may_be_under_way() const {
    return flags_.has(rules_.captures_are_marked ? kMarkedCapture : kRouting);
  }

 private:
  Driver& driver_;
  const Rules& rules_;
  const int device_;
  SlowPathFlags& flags_;
  int marked_ = 0;
};

}  // namespace cachalot
