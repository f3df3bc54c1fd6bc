// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/event_comparison.h"

#include <utility>

#include "base/assert.h"
#include "base/text.h"

namespace cachalot {
namespace {

// Snapshots and annotations are the program's own, and change nothing.
bool is_decision(Action action) {
  return action != Action::kSnapshot && action != Action::kAnnotate;
}

std::string text_of_event(Action action, Address address, uint64_t size, Stream stream, PoolId pool,
                          int device) {
  std::string text =
      format("%s %s, %llu bytes, stream %s", action_name(action), hex_address(address).c_str(),
             static_cast<unsigned long long>(size), hex_address(stream).c_str());
  if (!pool.is_default())
    text += format(", pool %llu:%llu", static_cast<unsigned long long>(pool.first),
                   static_cast<unsigned long long>(pool.second));
  if (device != 0) text += format(", device %d", device);
  return text;
}

}  // namespace

EventComparison::EventComparison(const Trace& trace) : trace_(trace) {
  for (int device = 0; device < trace.device_count; device++) next_.push_back(next_of(0, device));
}

void EventComparison::see(const TraceEntry& entry) {
  if (!is_decision(entry.action)) return;
  CACHALOT_ASSERT(1, entry.device >= 0 && entry.device < trace_.device_count);
  size_t& next = next_[static_cast<size_t>(entry.device)];
  if (next < trace_.events.size() && is_same(trace_.events[next], entry)) [[likely]] {
    next = next_of(next + 1, entry.device);
    return;
  }
  note(next, text_of_event(entry.action, entry.address, entry.size, entry.stream, entry.pool,
                           entry.device));
  if (next < trace_.events.size()) next = next_of(next + 1, entry.device);
}

void EventComparison::finish() {
  for (int device = 0; device < trace_.device_count; device++) {
    size_t& next = next_[static_cast<size_t>(device)];
    for (; next < trace_.events.size(); next = next_of(next + 1, device)) note(next, "nothing");
  }
}

size_t EventComparison::next_of(size_t index, int device) const {
  for (; index < trace_.events.size(); index++) {
    const TraceEvent& event = trace_.events[index];
    if (event.device == device && is_decision(event.action())) break;
  }
  return index;
}

// The address of a failure is what the device has free: other programs take part in that.
bool EventComparison::is_same(const TraceEvent& event, const TraceEntry& entry) const {
  return event.action() == entry.action && event.size == entry.size &&
         (event.address == entry.address || entry.action == Action::kOom) &&
         event.stream == entry.stream && trace_.pool_of(event) == entry.pool;
}

void EventComparison::note(size_t index, std::string actual) {
  if (differences_.count++ > 0) return;
  differences_.first = index;
  differences_.expected = index < trace_.events.size() ? describe(trace_.events[index]) : "nothing";
  differences_.actual = std::move(actual);
}

std::string EventComparison::describe(const TraceEvent& event) const {
  return text_of_event(event.action(), event.address, event.size, event.stream,
                       trace_.pool_of(event), event.device);
}

}  // namespace cachalot
