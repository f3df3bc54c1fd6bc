// SPDX-License-Identifier: MIT OR Apache-2.0
// How long a recorded program has worked, without what the driver took of it: a replay makes calls of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "replay/trace.h"

namespace cachalot {

class ProgramClock {
 public:
  explicit ProgramClock(const Trace& trace) : trace_(trace) {}

  // Microseconds of work up to an event. pre: it is not before that of the last call.
  uint64_t at(const TraceEvent& event);

 private:
  int64_t work_before(size_t event) const;

  const Trace& trace_;
  size_t next_ = 0;  // event
  uint64_t us_ = 0;
};

}  // namespace cachalot
