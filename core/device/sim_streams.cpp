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
  events_.emplace(event, Event{{0, 0}});
  return event;
}

bool SimStreams::record_event(uint64_t event, Stream stream) {
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  const auto work = work_.find(stream);
  found->second = {{stream, work == work_.end() ? 0 : work->second.queued}};
  return true;
}

bool SimStreams::record_event_of_all(uint64_t event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  found->second = {{0, 0}};
  for (const auto& [stream, work] : work_) found->second[stream] = work.queued;
  return true;
}

std::optional<Stream> SimStreams::event_stream(uint64_t event) const {
  const auto found = events_.find(event);
  if (found == events_.end()) return {};
  return found->second.begin()->first;
}

bool SimStreams::is_event_done(uint64_t event) const {
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  return std::all_of(found->second.begin(), found->second.end(), [&](const auto& part) {
    const auto work = work_.find(part.first);
    CACHALOT_ASSERT(1, work == work_.end() || part.second <= work->second.queued);
    return work == work_.end() || work->second.done >= part.second;
  });
}

void SimStreams::finish_event(uint64_t event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return;
  for (const auto& [stream, mark] : found->second) {
    Work& work = work_[stream];
    work.done = std::max(work.done, mark);
    CACHALOT_ASSERT(1, work.done <= work.queued);
  }
}

}  // namespace cachalot
