// SPDX-License-Identifier: MIT OR Apache-2.0
// A trace for ui.perfetto.dev, in the JSON format of trace events that it opens: the memory of each device as counters,
// driver calls as slices of their threads, requests that failed as instants.
#pragma once

#include "cachalot/cachalot.h"
#include "output.h"

namespace cachalot::cli {

// replayed: the history of a replay, whose reserved memory is one more counter; null: none. Throws Failure.
void write_perfetto(const cachalot_trace* trace, const cachalot_trace* replayed, Output* output);

}  // namespace cachalot::cli
