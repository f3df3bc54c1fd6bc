// SPDX-License-Identifier: MIT OR Apache-2.0
// The log that RMM's logging_resource_adaptor writes, as a trace.
#pragma once

#include <string>
#include <string_view>

namespace cachalot::cli {

inline constexpr std::string_view kRmmHeader = "Thread,Time,Action,Pointer,Size,Stream";

// text: a file that begins with that line. Throws Failure with the number of the line.
std::string trace_of_rmm_log(std::string_view text);

}  // namespace cachalot::cli
