// SPDX-License-Identifier: MIT OR Apache-2.0
// What is left of a request that the driver refused as out of memory.
#pragma once

#include <string>

#include "follower.h"
#include "ledger.h"

namespace cachalot::cli {

// Writes a file beside the recording, for this user only, and gives its path. number: of the failure in the process.
std::string write_failure_report(const RecordingFollower& follower,
                                 const cachalot_trace_event& failed, const Ledger& ledger,
                                 uint64_t number);

}  // namespace cachalot::cli
