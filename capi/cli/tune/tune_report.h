// SPDX-License-Identifier: MIT OR Apache-2.0
// The answer of `cachalot tune`.
#pragma once

#include <nlohmann/json.hpp>

#include "tune.h"

namespace cachalot::cli {

// To standard output, as tables.
void print_tuned(const TuneResult& result, const DriverCosts& costs);

// One object for programs and for the page (docs/tuning.md has its keys).
nlohmann::ordered_json tune_json(const TuneResult& result, const DriverCosts& costs);
// It, to standard output.
void print_tuned_json(const TuneResult& result, const DriverCosts& costs);

}  // namespace cachalot::cli
