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
  if (stream == kAllStreams) return finish_all();
  const auto work = work_.find(stream);
  if (work != work_.end()) work->second.done = work->second.queued;
}

void SimStreams::finish_all() {
  for (auto& [stream, work] : work_) work.done = work.queued;
}

uint64_t SimStreams::create_event() {
  const uint64_t event = ++events_made_ << 8;
  events_.emplace(event, Event());
  return event;
}

bool SimStreams::record_event(uint64_t event, Stream stream) {
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  Event& event_of_now = found->second = {stream};
  if (stream == kAllStreams) {
    for (const auto& [each, work] : work_) event_of_now.queued[each] = work.queued;
  } else if (const auto work = work_.find(stream); work != work_.end()) {
    event_of_now.queued[stream] = work->second.queued;
  }
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
  const auto& queued = found->second.queued;
  return std::all_of(queued.begin(), queued.end(), [&](const auto& part) {
    const auto work = work_.find(part.first);
    CACHALOT_ASSERT(1, work == work_.end() || part.second <= work->second.queued);
    return work == work_.end() || work->second.done >= part.second;
  });
}

void SimStreams::finish_event(uint64_t event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return;
  for (const auto& [stream, mark] : found->second.queued) {
    Work& work = work_[stream];
    work.done = std::max(work.done, mark);
    CACHALOT_ASSERT(1, work.done <= work.queued);
  }
}

}  // namespace cachalot
