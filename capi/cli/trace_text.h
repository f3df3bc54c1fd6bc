// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces as text, for what other programs recorded (docs/trace-format.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

// What the header of a converted file says.
struct TraceHead {
  std::string source;  // what it was converted from
  std::string torch;   // "": not known
  std::string config;
  uint64_t device_total = 0;  // 0: not known
  int64_t process = 0;        // 0: not known
};

// An event of which nothing is said yet.
cachalot_trace_event blank_event(cachalot_action action);

// The lines of trace format 2, each with its break.
std::string header_line(const TraceHead& head);
void append_event(std::string* out, const cachalot_trace_event& event);
// text: one frame a line, the innermost first.
void append_label(std::string* out, uint64_t context, std::string_view text);

}  // namespace cachalot::cli
