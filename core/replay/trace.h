// SPDX-License-Identifier: MIT OR Apache-2.0
// A recorded run in memory: what its header says, its events, and which free belongs to which
// hand-out.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/config/rules.h"
#include "alloc/trace/history.h"
#include "base/assert.h"
#include "device/device.h"
#include "replay/event_detail.h"

namespace cachalot {

struct RecordedStat {
  std::string name;
  int64_t value;
};

struct TraceHeader {
  int format = 1;
  std::string workload;
  std::string recorder;  // the program that wrote the file
  std::string torch;     // the version that recorded it, or whose rules were followed
  std::string config;
  uint64_t device_total = 0;  // 0: not said
  // Bytes of the one block that was handed out, freed and given back to the driver before the
  // recording began, 0 for none. Recordings of PyTorch have it: the first use of a device
  // allocates. Recordings of programs do not.
  uint64_t warm_up = 4;
  std::vector<RecordedStat> stats;
  // In format 2, of the process that was recorded.
  std::string command;
  int64_t pid = 0;  // 0: not said
  int64_t parent =
      0;  // the process that it was forked from, whose recording goes on elsewhere; 0: none
  int64_t start_us = 0;  // when the recording began, microseconds since 1970; 0: not said
  int32_t driver = 0;    // 13000: CUDA 13.0; 0: not said

  // The reference release of the same two numbers; none for other versions.
  std::optional<Release> release() const;
  // 0 for a statistic that was not recorded.
  int64_t stat(std::string_view name) const;
};

inline constexpr uint32_t kNoBlock = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kNoIndex = std::numeric_limits<uint32_t>::max();

// One event. Small, since there are millions.
struct TraceEvent {
  Address address;
  uint64_t size;
  Stream stream;
  int64_t time_us;  // -1: not said
  ContextId context;
  uint8_t action_number;
  uint8_t device;
  uint16_t pool;   // index in Trace::pools
  uint32_t block;  // slot of the block that is handed out or freed: no two live blocks share one

  Action action() const { return static_cast<Action>(action_number); }
};
static_assert(sizeof(TraceEvent) == 48);

// A free that was completed later than it was requested: the block was in use on another stream.
struct LateFree {
  uint32_t requested;             // index of the event
  uint32_t completed = kNoIndex;  // likewise
  uint8_t device = 0;
  bool is_with_previous = false;  // completed by the same look at the streams as the one before it
  Stream stream = 0;              // made up (stream_choice.h)
};

// Where a context, of any event, is in the program: the addresses of its calls, the innermost first.
struct RecordedStack {
  ContextId context;
  std::vector<Address> frames;
  size_t modules;  // how many modules the recording had told of by then
};

// A part of a file that is mapped at [begin, end) from this line of the recording on. It takes the place of
// earlier ones that it overlaps.
struct RecordedModule {
  Address begin;
  Address end;
  uint64_t offset;  // in the file
  std::string path;
};

inline constexpr int kMaxTraceDevices = 64;
inline constexpr size_t kMaxTracePools = 65535;
inline constexpr size_t kMaxTraceEvents = kNoIndex - 1;

struct Trace {
  TraceHeader header;
  std::vector<TraceEvent> events;
  std::vector<PoolId> pools{PoolId{}};  // the first: the default pools
  int device_count = 1;

  uint32_t block_slots = 0;
  std::vector<LateFree> late_frees;  // in the order of their requests
  // The first event that cannot have happened, as text; "" if all can.
  std::string flaw;

  bool has_segments = false;  // it tells of some

  // In format 2.
  std::vector<EventDetail> details;  // of each event; empty in format 1
  std::vector<RecordedStack> stacks;
  std::unordered_map<ContextId, size_t> stack_of_context;  // index of the first one that names it
  std::vector<RecordedModule> modules;
  std::unordered_map<ContextId, std::string> labels;  // texts of contexts
  std::vector<uint32_t> comments;  // for each line that is none: how many events come before it

  // Null if the recording does not tell of it.
  const RecordedStack* stack_of(ContextId context) const;
  // The file that was mapped at the address when the recording told of the stack; null: none.
  const RecordedModule* module_at(const RecordedStack& stack, Address address) const;

  // What the recording tells of a context: its label, or its stack, one frame a line, the innermost first; "" if it
  // tells nothing.
  std::string context_text(ContextId context) const;

  // Else of a program that has none.
  bool is_of_allocator() const { return header.format == 1 || has_segments; }

  // The line of the file that holds an event: the header is the first.
  size_t line_of(size_t event_index) const;

  PoolId pool_of(const TraceEvent& event) const {
    CACHALOT_ASSERT(1, event.pool < pools.size());
    return pools[event.pool];
  }
};

// "line 1,204".
std::string line_name(size_t line);

}  // namespace cachalot
