// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/replay_history.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/assert.h"

namespace cachalot {
namespace {

bool is_in_history(const TraceEvent& event) { return event.action_number < kActionCount; }

// Times before the first that is told are taken for that one.
int64_t first_time(const Trace& trace) {
  const auto told = std::find_if(trace.events.begin(), trace.events.end(),
                                 [](const TraceEvent& event) { return event.time_us >= 0; });
  return told != trace.events.end() ? told->time_us : trace.header.start_us;
}

}  // namespace

HistoryOfDevices recorded_history(const Trace& trace) {
  HistoryOfDevices entries(static_cast<size_t>(trace.device_count));
  int64_t time_us = first_time(trace);
  for (const TraceEvent& event : trace.events) {
    if (event.time_us >= 0) time_us = event.time_us;
    if (is_in_history(event))
      entries[event.device].push_back({event.action(), event.device, event.address, event.size,
                                       event.stream, trace.pool_of(event), event.context, time_us,
                                       nullptr, ""});
  }
  return entries;
}

ReplayHistory::ReplayHistory(const Trace& trace)
    : trace_(trace),
      time_us_(first_time(trace)),
      entries_(static_cast<size_t>(trace.device_count)) {}

void ReplayHistory::set_event(size_t index) {
  CACHALOT_ASSERT(1, index < trace_.events.size());
  index_ = index;
  const int64_t time_us = trace_.events[index].time_us;
  if (time_us >= 0) time_us_ = time_us;
}

void ReplayHistory::see(const TraceEntry& entry) {
  CACHALOT_ASSERT(1, entry.device >= 0 && entry.device < trace_.device_count);
  const TraceEvent& event = told_by(entry);
  if (event.time_us >= 0) time_us_ = event.time_us;
  TraceEntry& kept = entries_[static_cast<size_t>(entry.device)].emplace_back(entry);
  kept.time_us = time_us_;
  kept.context = event.context;
}

// The completion of a free has an event of its own, which is the next one most often.
const TraceEvent& ReplayHistory::told_by(const TraceEntry& entry) const {
  const TraceEvent& event = trace_.events[index_];
  const bool has_next = index_ + 1 < trace_.events.size();
  if (entry.action != Action::kFreeCompleted || !has_next) return event;
  const TraceEvent& next = trace_.events[index_ + 1];
  const bool completes = event.action() == Action::kFreeRequested &&
                         next.action() == Action::kFreeCompleted && next.block == event.block;
  return completes ? next : event;
}

HistoryOfDevices ReplayHistory::take() { return std::move(entries_); }

void set_contexts(Snapshot* snapshot) {
  for (size_t device = 0; device < snapshot->traces.size(); device++) {
    std::unordered_map<Address, ContextId> contexts;
    for (const TraceEntry& entry : snapshot->traces[device])
      if (entry.action == Action::kAlloc) contexts[entry.address] = entry.context;
    for (const SegmentRow& segment : snapshot->segments) {
      if (static_cast<size_t>(segment.device) != device) continue;
      for (size_t i = 0; i < segment.block_count; i++) {
        BlockRow& block = snapshot->blocks[segment.first_block + i];
        const auto found = contexts.find(block.address);
        if (block.state != BlockState::kInactive && found != contexts.end())
          block.context = found->second;
      }
    }
  }
}

}  // namespace cachalot
