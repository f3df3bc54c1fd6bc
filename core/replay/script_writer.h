// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the run that a replay would make as a script for the oracle (tests/oracle/FORMAT.md).
#pragma once

#include "replay/replay.h"
#include "replay/trace_file.h"

namespace cachalot {

// options: resolved. The script gives the device the addresses that the replay's own device chooses, which
// decide between blocks of equal size; with expect, the recorded ones. Throws Error(kInvalidArgument) for a trace of several devices: a script has one.
void write_script(const Trace& trace, const ReplayOptions& options, const WriteBytes& write);

}  // namespace cachalot
