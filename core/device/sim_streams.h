// SPDX-License-Identifier: MIT OR Apache-2.0
// Work on the streams of a simulated device, and the events that mark how far it has come.
#pragma once

#include <optional>
#include <unordered_map>

#include "device/device.h"

namespace cachalot {

// A stream counts the pieces of work that were queued and that are done; an event is done once its
// stream has done as many as had been queued when it was recorded. One of kAllStreams is done once each
// stream has.
class SimStreams {
 public:
  // pre: not kAllStreams (here and below).
  void queue_work(Stream stream) { work_[stream].queued++; }
  void finish_oldest(Stream stream);
  // kAllStreams: as finish_all().
  void finish(Stream stream);
  void finish_all();

  uint64_t create_event();
  // The rest is false or nothing for an event that does not exist.
  bool destroy_event(uint64_t event) { return events_.erase(event) != 0; }
  bool record_event(uint64_t event, Stream stream);
  // That it was recorded on; 0: it was not.
  std::optional<Stream> event_stream(uint64_t event) const;
  bool is_event_done(uint64_t event) const;
  void finish_event(uint64_t event);  // does the work before it

 private:
  struct Work {
    uint64_t queued = 0;
    uint64_t done = 0;
  };
  struct Event {
    Stream stream = 0;
    std::unordered_map<Stream, uint64_t> queued = {};  // on each stream that it waits for
  };

  std::unordered_map<Stream, Work> work_;
  std::unordered_map<uint64_t, Event> events_;
  uint64_t events_made_ = 0;
};

}  // namespace cachalot
