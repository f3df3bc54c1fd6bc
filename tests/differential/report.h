// SPDX-License-Identifier: MIT OR Apache-2.0
// The answers to a script's questions, printed as the oracle prints them.
#pragma once

#include "cachalot/cachalot.h"
#include "script.h"

namespace cachalot::differential {

// Statistics of device 0.
void report_stats(Script& script);

// Segments and blocks; of one private pool, or of all devices for the pool (0,0).
void report_snapshot(Script& script, cachalot_pool_id pool);

// The history that is kept of device 0, and the options in force. Both take a snapshot.
void report_history(Script& script);
void report_settings(Script& script);

}  // namespace cachalot::differential
