// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recording.h"

#include <algorithm>
#include <unordered_map>

#include "failure.h"
#include "run.h"

namespace cachalot::cli {
namespace {

// The driver gives memory by pages of this size. A block of more than half of one has its own (docs/gpu.md).
constexpr uint64_t kPage = uint64_t{2} << 20;

uint64_t pages_of(uint64_t size) {
  return size <= kPage / 2 ? size : (size + kPage - 1) / kPage * kPage;
}

char letter_of(const cachalot_trace_event& event) { return static_cast<char>(event.entry); }

}  // namespace

std::vector<cachalot_trace_event> events_of(const cachalot_trace* trace) {
  std::vector<cachalot_trace_event> events;
  events.reserve(info_of(trace).event_count);
  for_each_event(trace, [&](const cachalot_trace_event& event) { events.push_back(event); });
  return events;
}

bool is_served(const cachalot_trace_event& event) {
  return event.entry == 's' &&
         (event.action == CACHALOT_ACTION_ALLOC || event.action == CACHALOT_ACTION_LIVE_AT_BEGIN);
}

void CallSum::add(const cachalot_trace_event& event) {
  calls++;
  cost_ns += std::max<int64_t>(event.cost_ns, 0);
  wait_ns += std::max<int64_t>(event.wait_ns, 0);
  if (event.wait_ns < 0) unmeasured_waits++;
  if (event.cost_ns <= worst_ns) return;
  worst_ns = event.cost_ns;
  worst_at_us = event.time_us;
}

void CallSum::add(const CallSum& other) {
  calls += other.calls;
  cost_ns += other.cost_ns;
  wait_ns += other.wait_ns;
  unmeasured_waits += other.unmeasured_waits;
  if (other.worst_ns <= worst_ns) return;
  worst_ns = other.worst_ns;
  worst_at_us = other.worst_at_us;
}

int64_t RecordingSummary::cost_ns() const {
  int64_t sum = 0;
  for (const auto& calls : {requests, returns})
    for (const auto& [letter, call] : calls) sum += call.cost_ns;
  return sum;
}

void Holding::add(uint64_t size) {
  blocks++;
  bytes += size;
  pages += pages_of(size);
  peak = std::max(peak, bytes);
}

void Holding::remove(uint64_t size) {
  blocks--;
  bytes -= size;
  pages -= pages_of(size);
}

bool RecordingReader::Level::add(uint64_t size) {
  bytes += size;
  if (bytes <= peak) return false;
  peak = bytes;
  return true;
}

void RecordingReader::Level::remove(uint64_t size) { bytes -= size; }

RecordingReader::RecordingReader(int64_t begin_us) {
  summary_.begin_us = summary_.end_us = begin_us;
}

void RecordingReader::see(const cachalot_trace_event& event) {
  seen_++;
  if (event.time_us >= 0) summary_.end_us = std::max(summary_.end_us, event.time_us);
  switch (event.action) {
    case CACHALOT_ACTION_LIVE_AT_BEGIN:
      summary_.begins_with_live = true;
      return obtained(event);
    case CACHALOT_ACTION_ALLOC:
    case CACHALOT_ACTION_OTHER_ALLOC:
      return obtained(event);
    case CACHALOT_ACTION_OOM:
      summary_.refused++;
      return summary_.requests[letter_of(event)].add(event);
    case CACHALOT_ACTION_FREE_REQUESTED:
    case CACHALOT_ACTION_OTHER_FREE:
      return given_back(event);
    case CACHALOT_ACTION_CALL_END:
      return call_ended(event);
    case CACHALOT_ACTION_CONTEXT_END:
      return event.address == 0 ? context_ended(event.device) : void();
    case CACHALOT_ACTION_EXPORT:
      summary_.exported++;
      return;
    case CACHALOT_ACTION_RECORDING_END:
      summary_.is_whole = true;
      summary_.lost = event.size;
      return;
    default:
      return;
  }
}

void RecordingReader::obtained(const cachalot_trace_event& event) {
  if (event.cost_ns >= 0) summary_.requests[letter_of(event)].add(event);
  if (is_served(event) && event.cost_ns >= 0) summary_.served_requests.add(event);
  const auto [row, is_new] = live_.try_emplace(event.address, event);
  if (!is_new) {
    remove(row->second);
    row->second = event;
  }
  held_[{event.device, letter_of(event)}].add(event.size);
  if (event.action == CACHALOT_ACTION_OTHER_ALLOC) {
    others_.add(event.size);
    return;
  }
  if (blocks_.add(event.size)) summary_.events_to_peak = seen_;
  if (is_served(event)) served_.add(event.size);
}

void RecordingReader::given_back(const cachalot_trace_event& event) {
  const auto found = live_.find(event.address);
  if (found == live_.end()) return;
  remove(found->second);
  ending_[event.thread] = found->second;
  live_.erase(found);
}

void RecordingReader::remove(const cachalot_trace_event& event) {
  held_[{event.device, letter_of(event)}].remove(event.size);
  if (event.action == CACHALOT_ACTION_OTHER_ALLOC) return others_.remove(event.size);
  blocks_.remove(event.size);
  if (is_served(event)) served_.remove(event.size);
}

// A thread has one call at a time, which begins with what it gives back.
void RecordingReader::call_ended(const cachalot_trace_event& event) {
  const auto found = ending_.find(event.thread);
  const bool is_known = found != ending_.end() && found->second.address == event.address;
  // By how the memory was asked for: one call gives memory of several kinds back.
  summary_.returns[is_known ? letter_of(found->second) : letter_of(event)].add(event);
  if (is_known && is_served(found->second)) summary_.served_returns.add(event);
  if (found != ending_.end()) ending_.erase(found);
}

void RecordingReader::context_ended(int32_t device) {
  for (auto at = live_.begin(); at != live_.end();) {
    if (at->second.device != device) {
      ++at;
      continue;
    }
    remove(at->second);
    at = live_.erase(at);
  }
}

void RecordingReader::forget_live() {
  for (const auto& [address, event] : live_) remove(event);
  live_.clear();
}

RecordingSummary RecordingReader::summary() const {
  RecordingSummary summary = summary_;
  summary.block_peak = blocks_.peak;
  summary.served_peak = served_.peak;
  summary.other_peak = others_.peak;
  return summary;
}

RecordingSummary summarize(const cachalot_trace_info& info,
                           const std::vector<cachalot_trace_event>& events) {
  RecordingReader reader(info.start_us);
  for (const cachalot_trace_event& event : events) reader.see(event);
  return reader.summary();
}

}  // namespace cachalot::cli
