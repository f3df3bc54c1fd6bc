// SPDX-License-Identifier: MIT OR Apache-2.0
// The first line of a trace: "# " and a JSON object (docs/trace-format.md).
#pragma once

#include <string>
#include <string_view>

#include "replay/trace.h"

namespace cachalot {

// line: without its line break. Throws Error(kIo).
TraceHeader parse_trace_header(std::string_view line);

// With its line break.
std::string format_trace_header(const TraceHeader& header);

}  // namespace cachalot
