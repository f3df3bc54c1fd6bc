// SPDX-License-Identifier: MIT OR Apache-2.0
// A trace as a table for spreadsheets and data frames: comma-separated values with a row of names, an event a row.
#pragma once

#include "cachalot/cachalot.h"
#include "output.h"

namespace cachalot::cli {

// Throws Failure.
void write_event_table(const cachalot_trace* trace, Output* output);

}  // namespace cachalot::cli
