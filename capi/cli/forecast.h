// SPDX-License-Identifier: MIT OR Apache-2.0
// What `cachalot run` would have made of a recorded program, under options that nobody has tried yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recording.h"
#include "run.h"

namespace cachalot::cli {

// Bytes that may wait for work under `event` in any case; a quarter of those in use, if that is more.
inline constexpr uint64_t kLeastLeash = uint64_t{64} << 20;

// When a freed block is used again (docs/any-program.md). kWait: after a wait at its free. kEvent: when the work is
// done that was queued before its free. A recording does not tell when that is, so this is the worst that can be:
// not before the program waits for the device, or the blocks that wait are more than the leash. The best that
// can be is kWait's.
enum class FreeRule { kWait, kEvent };

struct Forecast {
  uint64_t peak_reserved;
  uint64_t driver_calls;  // that obtain memory and give it back
  uint64_t out_of_memory;
};

// What is served of a program, under one rule.
class ForecastedProgram {
 public:
  // Throws Failure.
  ForecastedProgram(const cachalot_trace_info& info,
                    const std::vector<cachalot_trace_event>& events,
                    const RecordingSummary& summary, FreeRule rule);

  // config: the option string. Throws Failure.
  Forecast forecast(const std::string& config) const;

 private:
  TraceHandle trace_;
  uint64_t capacity_ = 0;  // of a device; 0: not known
};

// Nanoseconds by which the calls that `run` serves would have been shorter: what they took, without the waits that
// stay (kWait), the driver's calls that stay, and what `run` itself takes.
int64_t saved_ns(const RecordingSummary& summary, const Forecast& forecast, FreeRule rule);

}  // namespace cachalot::cli
