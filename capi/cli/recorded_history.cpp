// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recorded_history.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "failure.h"
#include "numbers.h"

namespace cachalot::cli {
namespace {

// What is obtained from the device at a moment.
class ObtainedRanges {
 public:
  void add(RecordedRange range) {
    range.size = std::min(range.size, UINT64_MAX - range.address);
    if (range.size == 0) return;
    remove(range.address, range.size);
    ranges_[range.address] = range;
  }

  // Of a range that it is in the middle of, both ends stay.
  void remove(uint64_t address, uint64_t size) {
    const uint64_t end = address + std::min(size, UINT64_MAX - address);
    auto at = ranges_.upper_bound(address);
    if (at != ranges_.begin()) --at;
    while (at != ranges_.end() && at->first < end) at = cut(at, address, end);
  }

  const RecordedRange* find(uint64_t address) const {
    const auto behind = ranges_.upper_bound(address);
    if (behind == ranges_.begin()) return nullptr;
    const RecordedRange& range = std::prev(behind)->second;
    return address - range.address < range.size ? &range : nullptr;
  }

  const std::map<uint64_t, RecordedRange>& all() const { return ranges_; }

 private:
  using Place = std::map<uint64_t, RecordedRange>::iterator;

  Place cut(Place at, uint64_t begin, uint64_t end) {
    const RecordedRange range = at->second;
    const uint64_t range_end = range.address + range.size;
    if (range_end <= begin) return std::next(at);
    const auto next = ranges_.erase(at);
    if (range.address < begin) put(range, range.address, begin);
    if (end < range_end) put(range, end, range_end);
    return next;
  }

  void put(RecordedRange range, uint64_t begin, uint64_t end) {
    range.address = begin;
    range.size = end - begin;
    ranges_[begin] = range;
  }

  std::map<uint64_t, RecordedRange> ranges_;  // by address
};

using Blocks = std::unordered_map<uint64_t, RecordedBlock>;

RecordedBlock block_of(const cachalot_trace_event& event, bool is_freed) {
  return {.address = event.address,
          .requested = event.size,
          .stream = event.stream,
          .pool = event.pool,
          .context = event.context,
          .entry = event.entry,
          .is_freed = is_freed};
}

RecordedRange range_of(const cachalot_trace_event& event, bool is_expandable) {
  return {.address = event.address,
          .size = event.size,
          .stream = event.stream,
          .pool = event.pool,
          .is_expandable = is_expandable};
}

// What a device had before its history begins.
struct Beginning {
  ObtainedRanges ranges;
  Blocks blocks;
};

// Goes through the history from its end to its beginning.
class Undo {
 public:
  explicit Undo(const RecordedDevice& device) {
    for (const RecordedRange& range : device.ranges) begin_.ranges.add(range);
    for (const RecordedBlock& block : device.blocks)
      if (!begin_.blocks.emplace(block.address, block).second)
        throw Failure("two blocks at " + hexadecimal(block.address));
  }

  // Says in which pool it was, where the recording does not.
  void undo(RecordedEvent* recorded) {
    cachalot_trace_event& event = recorded->event;
    if (!recorded->has_pool && has_place(event.action)) event.pool = pool_at(event.address);
    if (event.action == CACHALOT_ACTION_ALLOC)
      begin_.blocks.erase(event.address);
    else if (event.action == CACHALOT_ACTION_FREE_COMPLETED)
      begin_.blocks[event.address] = block_of(event, true);
    else if (event.action == CACHALOT_ACTION_FREE_REQUESTED)
      undo_request(event);
    else
      undo_range(event);
  }

  Beginning take() { return std::move(begin_); }

 private:
  // Whether its address is one of a segment.
  static bool has_place(int32_t action) {
    return action <= CACHALOT_ACTION_SEGMENT_UNMAP || action == CACHALOT_ACTION_ANNOTATE;
  }

  cachalot_pool_id pool_at(uint64_t address) const {
    const RecordedRange* const range = begin_.ranges.find(address);
    return range != nullptr ? range->pool : cachalot_pool_id{};
  }

  // The completion of the free need not be recorded.
  void undo_request(const cachalot_trace_event& event) {
    const auto [found, is_new] = begin_.blocks.try_emplace(event.address, block_of(event, false));
    found->second.is_freed = false;
  }

  void undo_range(const cachalot_trace_event& event) {
    if (event.action == CACHALOT_ACTION_SEGMENT_ALLOC ||
        event.action == CACHALOT_ACTION_SEGMENT_MAP)
      begin_.ranges.remove(event.address, event.size);
    else if (event.action == CACHALOT_ACTION_SEGMENT_FREE)
      begin_.ranges.add(range_of(event, false));
    else if (event.action == CACHALOT_ACTION_SEGMENT_UNMAP)
      begin_.ranges.add(range_of(event, true));
  }

  Beginning begin_;
};

// The events of a device as a trace has them, from what was live at the beginning on. A history need not be whole
// (skip_actions leaves events out): what must have happened before an event is put in front of it.
class DeviceEvents {
 public:
  DeviceEvents(int32_t device, const Beginning& beginning)
      : device_(device), live_(beginning.blocks) {
    std::map<uint64_t, RecordedBlock> by_address(live_.begin(), live_.end());
    for (const auto& [address, block] : by_address) put(CACHALOT_ACTION_LIVE_AT_BEGIN, block);
    for (const auto& [address, block] : by_address)
      if (block.is_freed) put(CACHALOT_ACTION_FREE_REQUESTED, block);
    for (const auto& [address, range] : beginning.ranges.all()) put_range(range);
    before_history_ = events_.size();
  }

  void add(const cachalot_trace_event& event) {
    if (event.action == CACHALOT_ACTION_ALLOC) {
      complete_free(event);
      live_[event.address] = block_of(event, false);
    } else if (event.action == CACHALOT_ACTION_FREE_REQUESTED) {
      if (is_freed(event.address)) complete_free(event);
      hand_out(event);
      live_[event.address].is_freed = true;
    } else if (event.action == CACHALOT_ACTION_FREE_COMPLETED) {
      hand_out(event);
      if (!is_freed(event.address)) put_like(CACHALOT_ACTION_FREE_REQUESTED, event);
      live_.erase(event.address);
    }
    events_.push_back(event);
  }

  // The events before this one are of the time before the history.
  size_t before_history() const { return before_history_; }
  const std::vector<cachalot_trace_event>& events() const { return events_; }

 private:
  bool is_freed(uint64_t address) const {
    const auto found = live_.find(address);
    return found != live_.end() && found->second.is_freed;
  }

  // Makes sure that no block is live there.
  void complete_free(const cachalot_trace_event& event) {
    const auto found = live_.find(event.address);
    if (found == live_.end()) return;
    cachalot_trace_event free = event_of(found->second);
    free.time_us = event.time_us;
    if (!found->second.is_freed) put_like(CACHALOT_ACTION_FREE_REQUESTED, free);
    put_like(CACHALOT_ACTION_FREE_COMPLETED, free);
    live_.erase(found);
  }

  // Makes sure that a block is live there.
  void hand_out(const cachalot_trace_event& event) {
    if (live_.try_emplace(event.address, block_of(event, false)).second)
      put_like(CACHALOT_ACTION_ALLOC, event);
  }

  cachalot_trace_event event_of(const RecordedBlock& block) const {
    cachalot_trace_event event = blank_event(CACHALOT_ACTION_LIVE_AT_BEGIN);
    event.device = device_;
    event.address = block.address;
    event.size = block.requested;
    event.stream = event.freed_on = block.stream;
    event.pool = block.pool;
    event.context = block.context;
    event.entry = block.entry;
    return event;
  }

  void put(cachalot_action action, const RecordedBlock& block) {
    put_like(action, event_of(block));
  }

  void put_like(cachalot_action action, cachalot_trace_event event) {
    event.action = action;
    events_.push_back(event);
  }

  void put_range(const RecordedRange& range) {
    cachalot_trace_event event = blank_event(range.is_expandable ? CACHALOT_ACTION_SEGMENT_MAP
                                                                 : CACHALOT_ACTION_SEGMENT_ALLOC);
    event.device = device_;
    event.address = range.address;
    event.size = range.size;
    event.stream = event.freed_on = range.stream;
    event.pool = range.pool;
    events_.push_back(event);
  }

  const int32_t device_;
  Blocks live_;
  std::vector<cachalot_trace_event> events_;
  size_t before_history_ = 0;
};

DeviceEvents events_of_device(int32_t index, RecordedDevice* device) {
  Undo undo(*device);
  for (size_t i = device->events.size(); i-- > 0;) undo.undo(&device->events[i]);
  DeviceEvents events(index, undo.take());
  for (const RecordedEvent& recorded : device->events) events.add(recorded.event);
  return events;
}

// By time; those of one device stay in order.
void append_histories(const std::vector<DeviceEvents>& devices, std::string* text) {
  std::vector<size_t> positions;
  for (const DeviceEvents& device : devices) {
    for (size_t i = 0; i < device.before_history(); i++) append_event(text, device.events()[i]);
    positions.push_back(device.before_history());
  }
  while (true) {
    const cachalot_trace_event* first = nullptr;
    for (size_t i = 0; i < devices.size(); i++) {
      if (positions[i] == devices[i].events().size()) continue;
      const cachalot_trace_event& event = devices[i].events()[positions[i]];
      if (first == nullptr || event.time_us < first->time_us) first = &event;
    }
    if (first == nullptr) return;
    append_event(text, *first);
    positions[static_cast<size_t>(first->device)]++;
  }
}

}  // namespace

std::string trace_of(RecordedRun run) {
  std::string text = header_line(run.head);
  for (size_t i = 0; i < run.contexts.size(); i++) append_label(&text, i + 1, run.contexts[i]);
  std::vector<DeviceEvents> events;
  for (size_t i = 0; i < run.devices.size(); i++)
    events.push_back(events_of_device(static_cast<int32_t>(i), &run.devices[i]));
  append_histories(events, &text);
  return text;
}

}  // namespace cachalot::cli
