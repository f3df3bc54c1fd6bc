// SPDX-License-Identifier: MIT OR Apache-2.0
// The page of `cachalot tune`: its answer, and what the string to take changes in a recorded run.
#pragma once

#include <string>

#include "tune.h"

namespace cachalot::cli {

// Throws Failure.
std::string tune_page(const TuneResult& result, const DriverCosts& costs);

}  // namespace cachalot::cli
