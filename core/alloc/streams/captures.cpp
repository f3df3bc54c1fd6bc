// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/streams/captures.h"

#include "base/error.h"
#include "device/driver_error.h"

namespace cachalot {

// Captures nest, or run on several streams: a number, not a flag.
void Captures::begin() {
  if (!rules_.captures_are_marked) return;
  marked_++;
  flags_.put(kMarkedCapture, true);
}

void Captures::end() {
  if (!rules_.captures_are_marked) return;
  if (marked_ == 0) throw_invalid_state("the end of a capture was marked without a begin");
  marked_--;
  flags_.put(kMarkedCapture, marked_ > 0);
}

CaptureInfo Captures::info(Stream stream) const {
  CaptureInfo info;
  if (stream == kAllStreams) return info;
  require_success(driver_, driver_.capture_info(device_, stream, &info));
  return info;
}

bool Captures::is_capturing(Stream stream) const { return info(stream).capturing; }

// The flag is looked at first, so that no driver is asked outside of captures.
bool Captures::is_capture_context(std::optional<Stream> current_stream) const {
  if (!rules_.captures_are_marked) return flags_.has(kRouting);
  if (!flags_.has(kMarkedCapture) || !current_stream) return false;
  // An event of all streams, or a wait for them, would end whichever capture there is.
  return *current_stream == kAllStreams || is_capturing(*current_stream);
}

}  // namespace cachalot
