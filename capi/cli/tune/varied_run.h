// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs that are like a recorded one, with other sizes: what advice from one recording is worth for the next.
#pragma once

#include <cstdint>

#include "trial.h"

namespace cachalot::cli {

// Each size of 1 MiB and more is changed by up to 3 % in either direction, equal ones alike, as a program does that gets
// other batches and lengths. Throws Failure.
TunedRun varied_run(const TunedRun& run, uint64_t seed, const std::atomic<bool>* cancelled);

}  // namespace cachalot::cli
