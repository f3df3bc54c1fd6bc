// SPDX-License-Identifier: MIT OR Apache-2.0
// Where in a program the blocks were asked for that it had at its peak.
#pragma once

#include <cstdio>
#include <vector>

#include "recording.h"

namespace cachalot::cli {

// The places with the most bytes. Says so where the recording has no stacks.
void print_places(const cachalot_trace* trace, const std::vector<cachalot_trace_event>& events,
                  const RecordingSummary& summary, size_t most, std::FILE* out);

}  // namespace cachalot::cli
