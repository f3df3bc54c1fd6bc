// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/async/async_capture.h"

#include <vector>

#include "base/assert.h"
#include "base/error.h"
#include "device/driver_error.h"

namespace cachalot {

void AsyncCapture::begin() {
  if (is_under_way_) throw_invalid_state("Only one capture at a time is allowed in a process.");
  CACHALOT_ASSERT(1, freed_on_.empty());
  is_under_way_ = true;
  stream_.reset();
}

// The capture is over whatever the driver says: its graph is lost after an error.
void AsyncCapture::end(std::optional<Stream> current_stream) {
  if (!is_under_way_) {
    throw_invalid_state(
        "CudaMallocAsync::notifyCaptureAboutToEnd called, but CudaMallocAsync::capture_underway is "
        "false.");
  }
  // A copy, since a failure half-way must leave no capture behind.
  const std::vector<DeviceStream> freed_on(freed_on_.begin(), freed_on_.end());
  is_under_way_ = false;
  // Without both no request was made, and the default stream joins nothing but itself.
  const Stream joining = current_stream ? *current_stream : stream_.value_or(0);
  freed_on_.clear();
  for (const DeviceStream& freed : freed_on)
    make_stream_wait(driver_, freed.device, joining, freed.stream);
}

void AsyncCapture::abandon() {
  is_under_way_ = false;
  freed_on_.clear();
}

void AsyncCapture::note_request(Stream current_stream) {
  if (is_under_way_ && !stream_) stream_ = current_stream;
}

bool AsyncCapture::note_free(int device, Stream stream) {
  return is_under_way_ && freed_on_.insert({device, stream}).second;
}

void AsyncCapture::forget_free(int device, Stream stream) { freed_on_.erase({device, stream}); }

// By an event of its own, since the driver has no wait of one stream for another.
void make_stream_wait(Driver& driver, int device, Stream waiting, Stream awaited) {
  uint64_t event = 0;
  require_success(driver, driver.event_create(device, &event));
  DriverCode code = driver.event_record(device, event, awaited);
  if (code == kSuccess) code = driver.stream_wait_event(device, waiting, event);
  driver.event_destroy(device, event);  // the driver keeps it until the wait is over
  require_success(driver, code);
}

void require_one_stream(Stream stream) {
  if (stream != kAllStreams) return;
  throw_invalid_argument(
      "backend:cudaMallocAsync orders memory by single streams, which CACHALOT_STREAM_ALL is not");
}

}  // namespace cachalot
