// SPDX-License-Identifier: MIT OR Apache-2.0
#include "key_reports.h"

#include <algorithm>
#include <map>

#include "failure.h"

namespace cachalot::cli {
namespace {

struct DestroyReport {
  void operator()(cachalot_report* report) const { cachalot_report_destroy(report); }
};

bool is_default(cachalot_pool_id pool) { return pool.first == 0 && pool.second == 0; }

std::string report_text(cachalot_allocator* allocator, const KeyRequest& request) {
  cachalot_report_options options{};
  options.struct_size = sizeof options;
  options.device = request.owner.device;
  options.size = request.size;
  options.stream = request.owner.stream;
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_report* made = nullptr;
  const cachalot_status status = cachalot_report_create(allocator, &options, &made, &error);
  if (status == CACHALOT_ERROR_NOT_SUPPORTED || status == CACHALOT_ERROR_INVALID_ARGUMENT)
    return {};  // this backend has no report, or the request is beyond all sizes
  check(status, error);
  const std::unique_ptr<cachalot_report, DestroyReport> report(made);
  size_t length = 0;
  check(cachalot_report_json(made, nullptr, 0, &length, &error), error);
  std::string text(length + 1, '\0');
  check(cachalot_report_json(made, text.data(), text.size(), &length, &error), error);
  text.resize(length);
  return text;
}

// The events at which anything changed, in order.
std::vector<uint64_t> changes_of(const Timeline& timeline) {
  std::vector<uint64_t> changes;
  for (const TimelineBlock& block : timeline.blocks)
    changes.insert(changes.end(), {block.begin, block.freed, block.completed});
  for (const TimelineRange& range : timeline.ranges)
    changes.insert(changes.end(), {range.begin, range.end});
  std::sort(changes.begin(), changes.end());
  changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
  return changes;
}

// The last event that led to the state of the request; kNever: none did.
uint64_t last_change(const std::vector<uint64_t>& changes, const KeyRequest& request) {
  const auto behind = request.is_behind
                          ? std::upper_bound(changes.begin(), changes.end(), request.event)
                          : std::lower_bound(changes.begin(), changes.end(), request.event);
  return behind == changes.begin() ? kNever : *(behind - 1);
}

}  // namespace

std::vector<std::string> reports_of(const cachalot_trace* trace, const ReplayCall& call,
                                    const Timeline& timeline,
                                    const std::vector<KeyRequest>& requests) {
  std::vector<std::string> texts(requests.size());
  std::multimap<uint64_t, size_t>
      due;  // indices of requests, by the event behind which they are looked at
  const auto changes = changes_of(timeline);
  for (size_t i = 0; i < requests.size(); i++) {
    const uint64_t event = last_change(changes, requests[i]);
    if (event != kNever && is_default(requests[i].owner.pool)) due.emplace(event, i);
  }
  if (due.empty()) return texts;
  replay_trace(trace, call,
               [&](cachalot_allocator* allocator, uint64_t event, const cachalot_trace_entry&) {
                 while (!due.empty() && due.begin()->first == event) {
                   const size_t index = due.begin()->second;
                   texts[index] = report_text(allocator, requests[index]);
                   due.erase(due.begin());
                 }
               });
  return texts;
}

KeyRequest fragmented_request(const Timeline& timeline,
                              const std::vector<cachalot_trace_event>& events) {
  KeyRequest request{timeline.reserved.event, true, {}, 0};
  uint64_t most = 0;
  for (const TimelineMiss& miss : timeline.misses) {
    const cachalot_trace_event& event = events[miss.event];
    const uint64_t needless = std::min(miss.cached, miss.obtained);
    if (needless == 0 || needless < most || !is_default(event.pool)) continue;
    most = needless;
    request = request_of(event, miss.event, false);
  }
  return request;
}

KeyRequest request_of(const cachalot_trace_event& event, uint64_t index, bool is_behind) {
  return {index, is_behind, {event.device, event.stream, event.pool}, event.size};
}

}  // namespace cachalot::cli
