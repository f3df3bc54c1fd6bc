// SPDX-License-Identifier: MIT OR Apache-2.0
// What `cachalot run` would have made of a recorded program, under options that nobody has tried yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recording.h"

namespace cachalot::cli {

// When a freed block is used again (docs/any-program.md): after a wait at its free, or when the work is done that was
// queued before. A recording does not tell when that is. At best it is so at once, as after a wait. At worst, which
// is what kEvent stands for here, it is so when the program waits for the device, or when the blocks that wait are
// a quarter of those in use.
enum class FreeRule { kWait, kEvent };

struct Forecast {
  uint64_t peak_reserved;
  uint64_t driver_calls;  // that obtain memory and give it back
  uint64_t out_of_memory;
};

// config: the option string. Throws Failure.
Forecast forecast(const cachalot_trace_info& info, const std::vector<cachalot_trace_event>& events,
                  const std::string& config, FreeRule rule);

// Nanoseconds that the calls which `run` serves would have taken less: they end, but for a wait (FreeRule::kWait),
// and but for the driver's calls that stay.
int64_t saved_ns(const RecordingSummary& summary, const Forecast& forecast, FreeRule rule);

}  // namespace cachalot::cli
