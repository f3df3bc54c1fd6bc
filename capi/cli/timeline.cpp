// SPDX-License-Identifier: MIT OR Apache-2.0
#include "timeline.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "failure.h"
#include "recording.h"

namespace cachalot::cli {
namespace {

// Takes down what the allocator does.
class Recorder {
 public:
  Recorder(const std::vector<cachalot_trace_event>& events, Timeline* timeline)
      : events_(events), timeline_(*timeline) {}

  void see(cachalot_allocator* allocator, uint64_t event, const cachalot_trace_entry& entry) {
    if (event != event_) end_event();
    event_ = event;
    switch (entry.action) {
      case CACHALOT_ACTION_ALLOC:
        return begin_block(allocator, entry);
      case CACHALOT_ACTION_FREE_REQUESTED:
        return free_block(entry);
      case CACHALOT_ACTION_FREE_COMPLETED:
        return complete_free(entry);
      case CACHALOT_ACTION_SEGMENT_ALLOC:
      case CACHALOT_ACTION_SEGMENT_MAP:
        return obtain(entry);
      case CACHALOT_ACTION_SEGMENT_FREE:
      case CACHALOT_ACTION_SEGMENT_UNMAP:
        return give_back(entry);
      case CACHALOT_ACTION_OOM:
        miss().has_failed = true;
        return;
      default:
        return;
    }
  }

  // The last event is over.
  void end_event() {
    note(&timeline_.requested, requested_);
    note(&timeline_.allocated, allocated_);
    note(&timeline_.reserved, reserved_);
    is_request_ = false;
    given_back_ = 0;
    cached_before_ = cached();
  }

 private:
  using Key = std::pair<int32_t, cachalot_address>;  // device and address

  static Owner owner_of(const cachalot_trace_entry& entry) {
    return {entry.device, entry.stream, entry.pool};
  }

  // The blocks of frees that are pending are not.
  uint64_t cached() const { return reserved_ - allocated_ - pending_; }

  void note(Peak* peak, uint64_t bytes) const {
    if (bytes > peak->bytes) *peak = {bytes, event_};
  }

  void begin_block(cachalot_allocator* allocator, const cachalot_trace_entry& entry) {
    cachalot_block block{};
    block.struct_size = sizeof block;
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_get_block(allocator, entry.address, &block, &error), error);
    const BlockKind kind{owner_of(entry), entry.size, block.size, events_[event_].context};
    const auto [place, is_new] =
        kinds_.try_emplace(kind, static_cast<uint32_t>(timeline_.kinds.size()));
    if (is_new) timeline_.kinds.push_back(kind);
    active_[{entry.device, entry.address}] = timeline_.blocks.size();
    timeline_.blocks.push_back({entry.address, place->second, event_, kNever, kNever});
    requested_ += kind.requested;
    allocated_ += kind.size;
  }

  void free_block(const cachalot_trace_entry& entry) {
    const auto found = active_.find({entry.device, entry.address});
    if (found == active_.end()) return;
    TimelineBlock& block = timeline_.blocks[found->second];
    block.freed = event_;
    allocated_ -= timeline_.kind_of(block).size;
    pending_ += timeline_.kind_of(block).size;
  }

  void complete_free(const cachalot_trace_entry& entry) {
    const auto found = active_.find({entry.device, entry.address});
    if (found == active_.end()) return;
    TimelineBlock& block = timeline_.blocks[found->second];
    block.completed = event_;
    requested_ -= timeline_.kind_of(block).requested;
    pending_ -= timeline_.kind_of(block).size;
    active_.erase(found);
  }

  // The miss of this event: a request may obtain memory in several parts.
  TimelineMiss& miss() {
    if (!is_request_)
      timeline_.misses.push_back(
          {.event = event_, .cached = cached_before_, .cost_ns = events_[event_].cost_ns});
    is_request_ = true;
    TimelineMiss& miss = timeline_.misses.back();
    miss.given_back += std::exchange(given_back_, 0);
    return miss;
  }

  void obtain(const cachalot_trace_entry& entry) {
    TimelineMiss& miss = this->miss();
    miss.obtained += entry.size;
    there_[{entry.device, entry.address}] = timeline_.ranges.size();
    timeline_.ranges.push_back({entry.address, entry.size, owner_of(entry),
                                entry.action == CACHALOT_ACTION_SEGMENT_MAP, event_, kNever});
    reserved_ += entry.size;
  }

  // A part of an expandable segment may be unmapped across what was mapped at a time, or inside of it.
  void give_back(const cachalot_trace_entry& entry) {
    given_back_ += entry.size;
    const cachalot_address end = entry.address + entry.size;
    auto place = there_.upper_bound({entry.device, entry.address});
    if (place != there_.begin()) place--;
    while (place != there_.end() && place->first < Key{entry.device, end}) {
      const size_t index = place->second;
      const TimelineRange range = timeline_.ranges[index];
      const cachalot_address range_end = range.address + range.size;
      if (range.owner.device != entry.device || range_end <= entry.address) {
        place++;
        continue;
      }
      place = there_.erase(place);
      timeline_.ranges[index].end = event_;
      reserved_ -= range.size;
      if (range.address < entry.address) keep(range, range.address, entry.address);
      if (range_end > end) keep(range, end, range_end);
    }
  }

  // What stays of a range that was unmapped in part.
  void keep(TimelineRange range, cachalot_address begin, cachalot_address end) {
    range.address = begin;
    range.size = end - begin;
    range.begin = event_;
    there_[{range.owner.device, begin}] = timeline_.ranges.size();
    timeline_.ranges.push_back(range);
    reserved_ += range.size;
  }

  const std::vector<cachalot_trace_event>& events_;
  Timeline& timeline_;
  std::map<BlockKind, uint32_t> kinds_;
  std::map<Key, size_t> active_;  // blocks whose free is not completed
  std::map<Key, size_t> there_;   // ranges
  uint64_t event_ = 0;
  uint64_t requested_ = 0;
  uint64_t allocated_ = 0;
  uint64_t pending_ = 0;
  uint64_t reserved_ = 0;
  uint64_t cached_before_ = 0;  // the event
  bool is_request_ = false;     // the event has its row among the misses
  uint64_t given_back_ = 0;     // by the event, before it obtained anything
};

void take_settings(cachalot_allocator* allocator, Timeline* timeline) {
  timeline->release = cachalot_allocator_release(allocator);
  cachalot_error error = CACHALOT_ERROR_INIT;
  size_t length = 0;
  check(cachalot_get_config(allocator, nullptr, 0, &length, &error), error);
  std::string config(length + 1, '\0');
  check(cachalot_get_config(allocator, config.data(), config.size(), &length, &error), error);
  config.resize(length);
  timeline->config = config;
  cachalot_device_totals totals{};
  totals.struct_size = sizeof totals;
  check(cachalot_get_device_totals(allocator, 0, &totals, &error), error);
  timeline->capacity = totals.total;
}

}  // namespace

Timeline timeline_of(const cachalot_trace* trace, const ReplayCall& call) {
  const auto events = events_of(trace);
  Timeline timeline;
  timeline.event_count = events.size();
  Recorder recorder(events, &timeline);
  const ReplayHandle replay = replay_trace(
      trace, call,
      [&](cachalot_allocator* allocator, uint64_t event, const cachalot_trace_entry& entry) {
        recorder.see(allocator, event, entry);
      });
  recorder.end_event();
  take_settings(cachalot_replay_allocator(replay.get()), &timeline);
  timeline.result = result_of(replay.get());
  timeline.result.expected = timeline.result.actual = "";  // theirs end with the replay
  const cachalot_trace_info info = info_of(trace);
  timeline.device_count = info.device_count;
  return timeline;
}

}  // namespace cachalot::cli
