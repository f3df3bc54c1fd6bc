// SPDX-License-Identifier: MIT OR Apache-2.0
// The capture of backend:cudaMallocAsync: pool routing is the capture, and there is one at a time.
//
// Frees that are issued during a capture become nodes of its graph. A stream that got one and is not
// joined before the end would leave the graph with a loose branch, so the end joins them all
// [async 3.7].
#pragma once

#include <optional>
#include <unordered_set>

#include "device/device.h"

namespace cachalot {

// Throws Error. Its user's lock guards it.
class AsyncCapture {
 public:
  explicit AsyncCapture(Driver& driver) : driver_(driver) {}

  bool is_under_way() const { return is_under_way_; }
  void begin();
  // current_stream: the captured one; without it, that of the capture's first request.
  void end(std::optional<Stream> current_stream);
  void abandon();  // the streams stay as they are

  // Outside of a capture these change nothing.
  void note_request(Stream current_stream);
  // Before the free is issued; forget_free takes it back where the driver refuses. False: the stream
  // was noted before.
  bool note_free(int device, Stream stream);
  void forget_free(int device, Stream stream);

  // The auditor: streams that wait to be joined by the end of a capture.
  bool is_consistent() const { return is_under_way_ || freed_on_.empty(); }

 private:
  // The default stream has the same handle on each device, so a stream alone names nothing.
  struct DeviceStream {
    int device;
    Stream stream;
    bool operator==(const DeviceStream&) const = default;
  };
  // The hash of the reference, so that the standard table lists streams in the reference's order.
  struct StreamHash {
    size_t operator()(const DeviceStream& s) const {
      return static_cast<size_t>(s.stream) + static_cast<size_t>(s.device);
    }
  };

  Driver& driver_;
  // One for all devices, since a capture can reach several of them.
  bool is_under_way_ = false;
  std::optional<Stream> stream_;  // of its first request
  std::unordered_set<DeviceStream, StreamHash> freed_on_;
};

// Work that is queued on `waiting` from now on runs after the work that is on `awaited` by now.
void make_stream_wait(Driver& driver, int device, Stream waiting, Stream awaited);

// The driver's pool orders memory by the queue of a stream, and all streams together have none. Throws
// Error(kInvalidArgument).
void require_one_stream(Stream stream);

}  // namespace cachalot
