// SPDX-License-Identifier: MIT OR Apache-2.0
// What another program recorded, as the lines of a trace.
//
// A recording may begin with blocks live, and need not be whole. What there was before it is told from its end and its
// events, undone from the last to the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cachalot/cachalot.h"
#include "trace_text.h"

namespace cachalot::cli {

inline constexpr size_t kMostDevices = 64;  // of a trace

// A block that is live at a moment.
struct RecordedBlock {
  uint64_t address = 0;
  uint64_t requested = 0;  // bytes
  uint64_t stream = 0;
  cachalot_pool_id pool{};
  uint64_t context = 0;
  int32_t entry = 0;
  bool is_freed = false;  // its free was requested
};

// A segment, or a mapped range of an expandable one.
struct RecordedRange {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t stream = 0;
  cachalot_pool_id pool{};
  bool is_expandable = false;
};

struct RecordedEvent {
  cachalot_trace_event event;
  bool has_pool = false;  // the recording says in which pool it was
};

struct RecordedDevice {
  // At the end, as far as the recording tells of it.
  std::vector<RecordedRange> ranges;
  std::vector<RecordedBlock> blocks;
  std::vector<RecordedEvent> events;
};

struct RecordedRun {
  TraceHead head;
  std::vector<std::string> contexts;  // what each means, one frame a line; the first is context 1
  std::vector<RecordedDevice> devices;
};

// The trace: what was live at the beginning, then the events by time; those of one device stay in
// order. What must have happened before an event and is not recorded is put in front of it. Throws Failure where two
// blocks have one address.
std::string trace_of(RecordedRun run);

}  // namespace cachalot::cli
