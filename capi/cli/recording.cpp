// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recording.h"

#include <algorithm>
#include <unordered_map>

#include "failure.h"

namespace cachalot::cli {
namespace {

// Bytes at a time, and the most that there were.
struct Level {
  uint64_t bytes = 0;
  uint64_t peak = 0;

  // Gives whether there are more than ever before.
  bool add(uint64_t size) {
    bytes += size;
    if (bytes <= peak) return false;
    peak = bytes;
    return true;
  }
  void remove(uint64_t size) { bytes -= std::min(bytes, size); }
};

class Summary {
 public:
  explicit Summary(RecordingSummary* out) : out_(*out) {}

  void see(const cachalot_trace_event& event) {
    seen_++;
    if (event.time_us >= 0) out_.end_us = std::max(out_.end_us, event.time_us);
    switch (event.action) {
      case CACHALOT_ACTION_ALLOC:
      case CACHALOT_ACTION_LIVE_AT_BEGIN:
      case CACHALOT_ACTION_OTHER_ALLOC:
        return obtained(event);
      case CACHALOT_ACTION_OOM:
        out_.refused++;
        return out_.requests[letter_of(event)].add(event);
      case CACHALOT_ACTION_FREE_REQUESTED:
      case CACHALOT_ACTION_OTHER_FREE:
        return given_back(event);
      case CACHALOT_ACTION_CALL_END:
        return call_ended(event);
      case CACHALOT_ACTION_CONTEXT_END:
        return context_ended(event.device);
      case CACHALOT_ACTION_EXPORT:
        out_.exported++;
        return;
      case CACHALOT_ACTION_RECORDING_END:
        out_.is_whole = true;
        out_.lost = event.size;
        return;
      default:
        return;
    }
  }

  void finish() {
    out_.block_peak = blocks_.peak;
    out_.served_peak = served_.peak;
    out_.other_peak = others_.peak;
  }

 private:
  static char letter_of(const cachalot_trace_event& event) {
    return static_cast<char>(event.entry);
  }

  void obtained(const cachalot_trace_event& event) {
    if (event.cost_ns >= 0) out_.requests[letter_of(event)].add(event);
    if (is_served(event) && event.cost_ns >= 0) out_.served_requests.add(event);
    live_[event.address] = event;
    if (event.action == CACHALOT_ACTION_OTHER_ALLOC) {
      others_.add(event.size);
      return;
    }
    if (blocks_.add(event.size)) out_.events_to_peak = seen_;
    if (is_served(event)) served_.add(event.size);
  }

  void given_back(const cachalot_trace_event& event) {
    const auto found = live_.find(event.address);
    if (found == live_.end()) return;
    remove(found->second);
    ending_[event.thread] = found->second;
    live_.erase(found);
  }

  void remove(const cachalot_trace_event& event) {
    if (event.action == CACHALOT_ACTION_OTHER_ALLOC) return others_.remove(event.size);
    blocks_.remove(event.size);
    if (is_served(event)) served_.remove(event.size);
  }

  // A thread has one call at a time, which begins with what it gives back.
  void call_ended(const cachalot_trace_event& event) {
    const auto found = ending_.find(event.thread);
    const bool is_known = found != ending_.end() && found->second.address == event.address;
    // By how the memory was asked for: one call gives memory of several kinds back.
    out_.returns[is_known ? letter_of(found->second) : letter_of(event)].add(event);
    if (is_known && is_served(found->second)) out_.served_returns.add(event);
    if (found != ending_.end()) ending_.erase(found);
  }

  void context_ended(int32_t device) {
    for (auto at = live_.begin(); at != live_.end();) {
      if (at->second.device != device) {
        ++at;
        continue;
      }
      remove(at->second);
      at = live_.erase(at);
    }
  }

  RecordingSummary& out_;
  size_t seen_ = 0;                                          // events
  std::unordered_map<uint64_t, cachalot_trace_event> live_;  // by address
  std::unordered_map<uint64_t, cachalot_trace_event>
      ending_;  // by thread: what its call gives back
  Level blocks_;
  Level served_;
  Level others_;
};

}  // namespace

std::vector<cachalot_trace_event> events_of(const cachalot_trace* trace) {
  cachalot_trace_info info{};
  info.struct_size = sizeof info;
  check(cachalot_trace_get_info(trace, &info));
  std::vector<cachalot_trace_event> events(info.event_count);
  for (size_t i = 0; i < events.size(); i++) {
    events[i].struct_size = sizeof events[i];
    check(cachalot_trace_get_event(trace, i, &events[i]));
  }
  return events;
}

bool is_served(const cachalot_trace_event& event) {
  return event.entry == 's' && event.driver_context == 0 &&
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

int64_t RecordingSummary::cost_ns() const {
  int64_t sum = 0;
  for (const auto& calls : {requests, returns})
    for (const auto& [letter, call] : calls) sum += call.cost_ns;
  return sum;
}

RecordingSummary summarize(const cachalot_trace_info& info,
                           const std::vector<cachalot_trace_event>& events) {
  RecordingSummary summary;
  summary.begin_us = summary.end_us = info.start_us;
  Summary reading(&summary);
  for (const cachalot_trace_event& event : events) reading.see(event);
  reading.finish();
  return summary;
}

}  // namespace cachalot::cli
