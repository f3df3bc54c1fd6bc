// SPDX-License-Identifier: MIT OR Apache-2.0
// The lines of trace format 2 that are no events:
//   # stack CONTEXT [FRAME;FRAME...]
//   # module BEGIN END OFFSET PATH
// All numbers are hexadecimal, without 0x. Other lines that begin with "# " mean nothing.
#pragma once

#include <string_view>

#include "replay/trace.h"

namespace cachalot {

// Adds what the line says. line: without its line break. False: it is malformed.
bool parse_trace_comment(std::string_view line, Trace* trace);

}  // namespace cachalot
