// SPDX-License-Identifier: MIT OR Apache-2.0
// What a replay is of, how it was done and what came of it, as JSON: the same in a page and in the terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "timeline.h"

namespace cachalot::cli {

nlohmann::ordered_json run_facts(const cachalot_trace* trace, const ReplayCall& call,
                                 const Timeline& timeline);

// "0xa0", "all"; "0:0", "1:0"; "default", "1:0".
std::string stream_text(cachalot_stream stream);
std::string pair_text(cachalot_pool_id pool);
std::string pool_text(cachalot_pool_id pool);
// "stream 0xa0, default pools"; with the device where the run has several.
std::string owner_text(const Owner& owner, const Timeline& timeline);

}  // namespace cachalot::cli
