// SPDX-License-Identifier: MIT OR Apache-2.0
// The lines of trace format 2 that are no events:
//   # stack CONTEXT [FRAME;FRAME...]
//   # module BEGIN END OFFSET PATH
//   # label CONTEXT TEXT
// All numbers are hexadecimal, without 0x. Other lines that begin with "# " mean nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "replay/trace.h"

namespace cachalot {

// Adds what the line says. line: without its line break. False: it is malformed.
bool parse_trace_comment(std::string_view line, Trace* trace);

// The line of a label with its line break. What is longer than kMaxLabelBytes is cut.
inline constexpr size_t kMaxLabelBytes = size_t{16} << 10;
std::string format_label_comment(ContextId context, std::string_view text);

}  // namespace cachalot
