// SPDX-License-Identifier: MIT OR Apache-2.0
// What a replay did, event by event: its blocks from their requests to their frees, the memory that they lie in, and
// the requests that needed the driver or failed.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "run.h"

namespace cachalot::cli {

// Whose memory it is. The same for many blocks.
struct Owner {
  int32_t device = 0;
  cachalot_stream stream = 0;
  cachalot_pool_id pool{};

  friend auto operator<=>(const Owner& a, const Owner& b) {
    return std::tie(a.device, a.stream, a.pool.first, a.pool.second) <=>
           std::tie(b.device, b.stream, b.pool.first, b.pool.second);
  }
  friend bool operator==(const Owner& a, const Owner& b) { return (a <=> b) == 0; }
};

// Blocks of one size, owner and context.
struct BlockKind {
  Owner owner;
  uint64_t requested = 0;
  uint64_t size = 0;     // of the block
  uint64_t context = 0;  // of the trace

  friend auto operator<=>(const BlockKind&, const BlockKind&) = default;
};

// The index of an event that never came.
inline constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

// Times are indices of the trace's events: what is said of one holds behind it.
struct TimelineBlock {
  cachalot_address address;
  uint32_t kind;       // index in Timeline::kinds
  uint64_t begin;      // the request
  uint64_t freed;      // by the program
  uint64_t completed;  // when it could be used again

  bool is_active_at(uint64_t event) const { return begin <= event && event < completed; }
  bool is_live_at(uint64_t event) const { return begin <= event && event < freed; }
};

// A segment, or a part of an expandable one while it was mapped.
struct TimelineRange {
  cachalot_address address;
  uint64_t size;
  Owner owner;
  bool is_expandable;
  uint64_t begin;
  uint64_t end;

  bool is_there_at(uint64_t event) const { return begin <= event && event < end; }
};

// A request that no cached block served, and what the driver did for it.
struct TimelineMiss {
  uint64_t event;
  uint64_t obtained = 0;    // bytes
  uint64_t given_back = 0;  // bytes, on the way
  uint64_t cached = 0;      // bytes, before the event
  int64_t cost_ns = -1;     // what the same request cost in the recorded program; -1: not said
  bool has_failed = false;
};

struct Peak {
  uint64_t bytes = 0;
  uint64_t event = 0;  // the first that had them
};

struct Timeline {
  uint64_t event_count = 0;
  std::vector<BlockKind> kinds;
  std::vector<TimelineBlock> blocks;  // in the order of their requests
  std::vector<TimelineRange> ranges;  // in the order in which they were obtained
  std::vector<TimelineMiss> misses;   // in the order of the trace
  // Of all devices together: a device's own peak may come at another moment.
  Peak requested;
  Peak allocated;
  Peak reserved;
  uint64_t capacity = 0;  // of a device
  int32_t device_count = 0;
  std::string config;  // the option string
  int32_t release = 0;
  cachalot_replay_result result{};

  const BlockKind& kind_of(const TimelineBlock& block) const { return kinds[block.kind]; }
};

// Replays the trace. Throws Failure.
Timeline timeline_of(const cachalot_trace* trace, const ReplayCall& call);

}  // namespace cachalot::cli
