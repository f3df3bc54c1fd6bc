// SPDX-License-Identifier: MIT OR Apache-2.0
// The answer of `cachalot tune`.
#pragma once

#include "tune.h"

namespace cachalot::cli {

// To standard output, as tables.
void print_tuned(const TuneResult& result, const DriverCosts& costs);

// To standard output, as one JSON object (docs/tuning.md has its keys).
void print_tuned_json(const TuneResult& result, const DriverCosts& costs);

}  // namespace cachalot::cli
