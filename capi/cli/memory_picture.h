// SPDX-License-Identifier: MIT OR Apache-2.0
// What `cachalot inspect` shows of any recorded run: a replay's totals, who holds the memory at the peak, and why what is
// cached cannot be used.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>

#include "run.h"

namespace cachalot::cli {

// The keys are those of docs/report.md. Throws Failure.
nlohmann::ordered_json memory_picture(const cachalot_trace* trace, const ReplayCall& call);

// On one screen.
void print_memory_picture(const nlohmann::ordered_json& picture, std::FILE* out);

}  // namespace cachalot::cli
