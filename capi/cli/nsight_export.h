// SPDX-License-Identifier: MIT OR Apache-2.0
// Reports of Nsight Systems, exported to SQLite (nsys export --type sqlite), as traces: their memory events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cachalot::cli {

inline constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

// process: whose memory; 0: there is only one. Throws Failure. The work that the file can ask for is bounded by its
// size.
std::string trace_of_nsight_export(const std::string& path, int64_t process);

}  // namespace cachalot::cli
