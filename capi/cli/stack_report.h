// SPDX-License-Identifier: MIT OR Apache-2.0
// Where in a program the blocks were asked for that it had at a moment, such as its peak.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "recording.h"
#include "symbols.h"

namespace cachalot::cli {

// Requests with the same stack.
struct PlaceText {
  uint64_t requests = 0;            // in all
  uint64_t blocks = 0;              // at the moment
  uint64_t bytes = 0;               // of them
  std::vector<std::string> frames;  // functions or addresses, the innermost first
};

// The calls of a context, the innermost first; none if the trace does not tell of it.
std::vector<cachalot_trace_frame> stack_of(const cachalot_trace* trace, uint64_t context);

// Adds the places in files that names can be looked up for.
void add_codes(const std::vector<cachalot_trace_frame>& frames, std::set<CodePlace>* codes);

// The function if it is among the names, else the place in its file or in memory.
std::string frame_text(const cachalot_trace_frame& frame,
                       const std::map<CodePlace, std::string>& names);

// The places with the most bytes behind the first `count` events; none of a recording without stacks.
std::vector<PlaceText> places_behind(const cachalot_trace* trace,
                                     const std::vector<cachalot_trace_event>& events, size_t count,
                                     size_t most);

// Those of the peak. Says so where the recording has no stacks.
void print_places(const cachalot_trace* trace, const std::vector<cachalot_trace_event>& events,
                  const RecordingSummary& summary, size_t most, std::FILE* out);

}  // namespace cachalot::cli
