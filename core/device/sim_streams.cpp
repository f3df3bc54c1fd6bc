// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_streams.h"

#include <algorithm>

#include "base/assert.h"

namespace cachalot {

void SimStreams::finish_oldest(Stream stream) {
  Work& work = work_[stream];
  if (work.done < work.queued) work.done++;
}

void SimStreams::finish(Stream stream) {
  const auto work = work_.find(stream);
  if (work != work_.end()) work->second.done = work->second.queued;
}

void SimStreams::finish_all() {
  for (auto& [stream, work] : work_) work.done = work.queued;
}

uint64_t SimStreams::create_event() {
  const uint64_t event = ++events_made_ << 8;
  events_.emplace(event, Event{});
  return event;
}

bool SimStreams::record_event(uint64_t event, Stream stream) {
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  const auto work = work_.find(stream);
  found->second = {stream, work == work_.end() ? 0 : work->second.queued};
  return true;
}

std::optional<Stream> SimStreams::event_stream(uint64_t event) const {
  const auto found = events_.find(event);
  if (found == events_.end()) return {};
  return found->second.stream;
}

bool SimStreams::is_event_done(uint64_t event) const {
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  const auto work = work_.find(found->second.stream);
  CACHALOT_ASSERT(1, work == work_.end() || found->second.mark <= work->second.queued);
  return work == work_.end() || work->second.done >= found->second.mark;
}

void SimStreams::finish_event(uint64_t event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return;
  Work& work = work_[found->second.stream];
  work.done = std::max(work.done, found->second.mark);
  CACHALOT_ASSERT(1, work.done <= work.queued);
}

}  // namespace cachalot
