// SPDX-License-Identifier: MIT OR Apache-2.0
// What a recording of a program tells: its calls, what they took, and what memory it had.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

std::vector<cachalot_trace_event> events_of(const cachalot_trace* trace);

// Requests that `cachalot run` would serve: cuMemAlloc in the primary context of a device.
bool is_served(const cachalot_trace_event& event);

// Calls of one kind.
struct CallSum {
  uint64_t calls = 0;
  int64_t cost_ns = 0;
  int64_t wait_ns = 0;  // of it, for work of the device
  uint64_t unmeasured_waits = 0;
  int64_t worst_ns = 0;
  int64_t worst_at_us = 0;  // since 1970

  void add(const cachalot_trace_event& event);
};

struct RecordingSummary {
  // By the letter of how the program asked (docs/trace-format.md).
  std::map<char, CallSum> requests;
  std::map<char, CallSum> returns;
  CallSum served_requests;
  CallSum served_returns;
  uint64_t refused = 0;
  uint64_t exported = 0;
  uint64_t block_peak = 0;    // bytes of blocks at a time, of all devices
  size_t events_to_peak = 0;  // how many events lead to it
  uint64_t served_peak = 0;   // of those that are served
  uint64_t other_peak = 0;    // of memory outside of any cache
  int64_t begin_us = 0;       // since 1970
  int64_t end_us = 0;
  bool is_whole = false;  // the process ended as it should
  uint64_t lost = 0;      // events

  int64_t cost_ns() const;
};

RecordingSummary summarize(const cachalot_trace_info& info,
                           const std::vector<cachalot_trace_event>& events);

}  // namespace cachalot::cli
