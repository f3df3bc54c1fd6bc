// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/program_clock.h"

#include <algorithm>

namespace cachalot {
namespace {

// Of a recording without times.
constexpr int64_t kUsOfRequest = 10;

}  // namespace

uint64_t ProgramClock::at(const TraceEvent& event) {
  const auto end = static_cast<size_t>(&event - trace_.events.data()) + 1;
  for (; next_ < end; next_++) us_ += static_cast<uint64_t>(work_before(next_));
  return us_;
}

// Since the event before. An event is recorded when its call of the driver has ended.
int64_t ProgramClock::work_before(size_t event) const {
  if (event == 0) return 0;
  const int64_t from = trace_.events[event - 1].time_us;
  const int64_t to = trace_.events[event].time_us;
  if (from < 0 || to < 0) return trace_.events[event].action() == Action::kAlloc ? kUsOfRequest : 0;
  const int64_t cost_ns = trace_.details.empty() ? 0 : trace_.details[event].cost_ns;
  return std::max<int64_t>(0, to - from - std::max<int64_t>(0, cost_ns) / 1000);
}

}  // namespace cachalot
