// SPDX-License-Identifier: MIT OR Apache-2.0
// What the recorded program did, told from what its allocator recorded.
//
// The program's own acts are requests, frees, uses of blocks on other streams, and emptyings of the
// cache. The trace shows the first two as they are. A free that was completed late tells of a use
// on another stream, whose work ended where the free was completed. Segments that were given back
// tell of an emptied cache, unless the allocator can have given them up itself, on the way to a
// request that needed memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "replay/trace.h"

namespace cachalot {

// Whether the recorded allocator can have given segments back of its own accord: when it retried a
// request after the device had no memory left, or by garbage collection, which needs a limit.
// fraction: 0 for none.
bool can_give_up_itself(const TraceHeader& header, double fraction);

// Walks a trace and tells a Target of each act, at the event that shows it:
//
//   obtained(event)            the recorded allocator obtained a segment, or mapped a part of one
//   allocate(event)            a request that was served
//   fail_to_allocate(event)    a request that failed
//   free(event)                a free of a block that no other stream uses
//   free_late(event, stream)   a free of a block that is in use on that stream
//   free_on(event, stream)     a free by a stream that works on the block, which is not its own
//   finish(event, stream)      the oldest piece of work of that stream gets done
//   release_pool(event)        no later event needs the event's pool
//   empty_cache(device, pool)  (0,0): all that no private pool needs
//   end_context(device)        nothing of the device is left
template <typename Target>
class Program {
 public:
  // gives_up_itself: see can_give_up_itself. pre: the trace has no flaw.
  Program(const Trace& trace, bool gives_up_itself, Target* target)
      : trace_(trace),
        target_(*target),
        stream_of_slot_(trace.late_frees.empty() ? 0 : trace.block_slots),
        event_of_slot_(trace.header.format < 2 ? 0 : trace.block_slots),
        handed_out_(static_cast<size_t>(trace.device_count)),
        gives_up_itself_(gives_up_itself),
        pools_defer_frees_(trace.header.release() == Release::k2_11) {
    CACHALOT_ASSERT(1, trace.flaw.empty());
  }

  // Ranges follow each other, from 0 on.
  void run(size_t begin, size_t end) {
    CACHALOT_ASSERT(1, begin == at_ && begin <= end && end <= trace_.events.size());
    for (at_ = begin; at_ < end; at_++) step(at_);
  }
  // The event at which a Target threw.
  size_t at() const { return at_; }

 private:
  // What the events of a device since its last act leave for the next.
  struct DeviceState {
    bool is_in_release = false;
    int completed_pool = kNone;  // of late frees: the pool, or kSeveral
    // What outcome_of_release found: each run of such events is walked once.
    size_t run_end = 0;       // the event behind the run
    size_t last_release = 0;  // of the run; kNoRelease: none
  };
  struct WaitedFor {
    const TraceEvent* event;
    Stream stream;
  };
  static constexpr int kNone = -1;
  static constexpr int kSeveral = -2;
  static constexpr size_t kNoRelease = static_cast<size_t>(-1);

  void step(size_t i) {
    const TraceEvent& event = trace_.events[i];
    const Action action = event.action();
    if (action == Action::kFreeCompleted) return complete_free(event, i);
    if (is_release(action)) return give_up(i);
    devices_[event.device] = {};
    if (action == Action::kAlloc || action == Action::kLiveAtBegin)
      allocate(event);
    else if (action == Action::kFreeRequested)
      request_free(event, i);
    else if (action == Action::kSegmentAlloc || action == Action::kSegmentMap)
      target_.obtained(event);
    else if (action == Action::kOom)
      target_.fail_to_allocate(event);
    else if (action == Action::kContextEnd && event.address == 0)
      end_context(event.device);
    if (!waited_for_.empty() && (action == Action::kAlloc || action == Action::kOom))
      finish_what_was_waited_for(event.device);
  }

  void allocate(const TraceEvent& event) {
    if (!event_of_slot_.empty()) {
      event_of_slot_[event.block] = &event;
      handed_out_[event.device].push_back(&event);
    }
    target_.allocate(event);
  }

  void request_free(const TraceEvent& event, size_t i) {
    if (next_late_ == trace_.late_frees.size() || trace_.late_frees[next_late_].requested != i)
      return free(event, i);
    const Stream stream = trace_.late_frees[next_late_++].stream;
    CACHALOT_ASSERT(1, stream != 0 && event.block < stream_of_slot_.size());
    stream_of_slot_[event.block] = stream;
    target_.free_late(event, stream);
  }

  void free(const TraceEvent& event, size_t i) {
    const Stream on = trace_.details.empty() ? event.stream : trace_.details[i].freed_on;
    if (on == event.stream)
      target_.free(event);
    else
      target_.free_on(event, on);
  }

  // All blocks of the device go with it.
  void end_context(uint8_t device) {
    for (const TraceEvent* const event : std::exchange(handed_out_[device], {})) {
      const TraceEvent*& live = event_of_slot_[event->block];
      if (live == event) end_block(*std::exchange(live, nullptr));
    }
    target_.end_context(device);
  }

  void end_block(const TraceEvent& event) {
    Stream* const waits_for = stream_of_slot_.empty() ? nullptr : &stream_of_slot_[event.block];
    if (waits_for && *waits_for != 0)
      target_.finish(event, std::exchange(*waits_for, 0));
    else
      target_.free(event);
  }

  void complete_free(const TraceEvent& event, size_t i) {
    if (!event_of_slot_.empty()) event_of_slot_[event.block] = nullptr;
    if (stream_of_slot_.empty() || stream_of_slot_[event.block] == 0) return;
    const Stream stream = std::exchange(stream_of_slot_[event.block], 0);
    // Such a request waits for the work once it finds no memory, and took no notice of it before.
    if (is_on_the_way_to_memory(i)) return waited_for_.push_back({&event, stream});
    target_.finish(event, stream);
    DeviceState& state = devices_[event.device];
    state.is_in_release = false;  // each emptying completes frees before it gives anything back
    const bool is_first = state.completed_pool == kNone || state.completed_pool == event.pool;
    state.completed_pool = is_first ? event.pool : kSeveral;
    // A recorded program has no cache to be emptied.
    if (trace_.is_of_allocator() && !is_followed_by_request(i))
      target_.empty_cache(event.device, PoolId{});
  }

  // Whether a request completed the late free: it did so before it had its memory. Requests that
  // were routed to a pool leave frees alone in 2.11. An emptying that shows in releases is told of
  // there.
  bool is_followed_by_request(size_t i) const {
    const size_t next = next_of_device(i);
    if (next == trace_.events.size()) return false;
    const TraceEvent& event = trace_.events[next];
    if (event.action() == Action::kFreeCompleted || is_release(event.action())) return true;
    return (event.action() == Action::kAlloc || needs_memory(event)) &&
           (event.pool == 0 || !pools_defer_frees_);
  }

  void finish_what_was_waited_for(uint8_t device) {
    const auto left = std::stable_partition(
        waited_for_.begin(), waited_for_.end(),
        [device](const WaitedFor& waited) { return waited.event->device == device; });
    for (auto waited = waited_for_.begin(); waited != left; ++waited)
      target_.finish(*waited->event, waited->stream);
    waited_for_.erase(waited_for_.begin(), left);
  }

  // Segments that were given back one after another went with one act.
  void give_up(size_t i) {
    const TraceEvent& event = trace_.events[i];
    DeviceState& state = devices_[event.device];
    if (state.is_in_release) return;
    state.is_in_release = true;
    if (is_on_the_way_to_memory(i)) return;
    const std::vector<const TraceEvent*> pools = pools_of_release(i);
    for (const TraceEvent* pool : pools)
      if (pool->pool != 0) target_.release_pool(*pool);
    if (is_whole_cache(pools, state.completed_pool))
      target_.empty_cache(event.device, PoolId{});
    else
      target_.empty_cache(event.device, trace_.pool_of(event));
  }

  // A segment of each pool in the release that begins here.
  std::vector<const TraceEvent*> pools_of_release(size_t i) const {
    std::vector<const TraceEvent*> pools;
    std::unordered_set<uint16_t> known;
    for (; i < trace_.events.size() && is_release(trace_.events[i].action());
         i = next_of_device(i)) {
      const TraceEvent& event = trace_.events[i];
      if (known.insert(event.pool).second) pools.push_back(&event);
    }
    return pools;
  }

  // The emptying of one pool touches no other.
  static bool is_whole_cache(const std::vector<const TraceEvent*>& pools, int completed_pool) {
    CACHALOT_ASSERT(1, !pools.empty());
    const uint16_t pool = pools.front()->pool;
    return pools.size() > 1 || pool == 0 || (completed_pool != kNone && completed_pool != pool);
  }

  // What comes behind the frees that were completed, and the segments that were given back, from i
  // on.
  struct Outcome {
    const TraceEvent* next;  // null: nothing
    bool has_release;
  };
  Outcome outcome_of_release(size_t i) {
    DeviceState& state = devices_[trace_.events[i].device];
    if (i >= state.run_end) walk_run(i, &state);
    const bool has_release = state.last_release != kNoRelease && state.last_release >= i;
    const bool has_next = state.run_end < trace_.events.size();
    return {has_next ? &trace_.events[state.run_end] : nullptr, has_release};
  }

  void walk_run(size_t i, DeviceState* state) const {
    CACHALOT_ASSERT(1, i >= state->run_end);  // each event is walked over once
    state->last_release = kNoRelease;
    for (; i < trace_.events.size(); i = next_of_device(i)) {
      const Action action = trace_.events[i].action();
      if (action != Action::kFreeCompleted && !is_release(action)) break;
      if (is_release(action)) state->last_release = i;
    }
    state->run_end = i;
  }

  // Whether a request did it that found no memory.
  bool is_on_the_way_to_memory(size_t i) {
    const Outcome outcome = outcome_of_release(i);
    if (outcome.next == nullptr) return false;
    if (outcome.next->action() == Action::kOom) return true;
    return gives_up_itself_ && outcome.has_release && needs_memory(*outcome.next);
  }

  static bool is_release(Action action) {
    return action == Action::kSegmentFree || action == Action::kSegmentUnmap;
  }

  size_t next_of_device(size_t i) const {
    const uint8_t device = trace_.events[i].device;
    do i++;
    while (i < trace_.events.size() && trace_.events[i].device != device);
    return i;
  }

  static bool needs_memory(const TraceEvent& event) {
    return event.action() == Action::kSegmentAlloc || event.action() == Action::kSegmentMap ||
           event.action() == Action::kOom;
  }

  const Trace& trace_;
  Target& target_;
  std::vector<Stream> stream_of_slot_;  // of blocks whose free waits for work; 0: none
  // Where contexts can end: the hand-outs of live blocks, and those of each device since its context ended last.
  std::vector<const TraceEvent*> event_of_slot_;
  std::vector<std::vector<const TraceEvent*>> handed_out_;
  std::vector<WaitedFor> waited_for_;  // by the next request
  size_t at_ = 0;
  size_t next_late_ = 0;
  std::array<DeviceState, kMaxTraceDevices> devices_;
  const bool gives_up_itself_;
  const bool pools_defer_frees_;
};

}  // namespace cachalot
