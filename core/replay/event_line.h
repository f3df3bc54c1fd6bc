// SPDX-License-Identifier: MIT OR Apache-2.0
// One line of a trace:
//   action,address,size,stream[,device[,pool[,time_us[,context]]]]
// and in format 2 behind the context
//   [,cost_ns[,entry[,thread[,freed_on[,wait_ns[,driver_context]]]]]]
#pragma once

#include <cstdint>
#include <string>

#include "alloc/config/pool_id.h"
#include "alloc/trace/history.h"
#include "replay/event_detail.h"

namespace cachalot {

struct EventLine {
  Action action;
  Address address;
  uint64_t size;
  Stream stream;
  uint64_t device;
  PoolId pool;
  int64_t time_us;  // -1: not said
  ContextId context;
  EventDetail detail;  // in format 2 only
};

// What a history says of the event.
EventLine line_of_entry(const TraceEntry& entry);

// Reads the line at `text` and gives where the next one begins; null if it is malformed, or has what
// its format does not know. pre: a line break comes before the end of the text.
const char* parse_event_line(const char* text, int format, EventLine* line);

// Writes the line with its line break, and gives its end; of the fields after the device those at the
// end that say nothing are left out. out: room for kMaxEventLine bytes.
inline constexpr size_t kMaxEventLine = 320;
char* write_event_line(char* out, const EventLine& line);
void append_event_line(std::string* out, const EventLine& line);

// The letter of an action: "aqcSFMUson", and "bARkxCDghwWez" in format 2.
char action_letter(Action action);

}  // namespace cachalot
