// SPDX-License-Identifier: MIT OR Apache-2.0
// Reports of the moments of a replay that matter: why cached memory could not serve a request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run.h"
#include "timeline.h"

namespace cachalot::cli {

// A request, and the moment at which the report shows what it would meet.
struct KeyRequest {
  uint64_t event;  // the trace's; the report is of the state before it, or behind it
  bool is_behind;
  Owner owner;
  uint64_t size;
};

// In the order of the requests, as cachalot_report_json has them; "" where nothing was there yet, and for requests in
// private pools, since a report is about those that the calling thread would make. Throws Failure.
std::vector<std::string> reports_of(const cachalot_trace* trace, const ReplayCall& call,
                                    const Timeline& timeline,
                                    const std::vector<KeyRequest>& requests);

// The request that led to the peak of what is reserved, before it. If it is of a private pool: the largest of the run,
// at the peak; of size 0 without requests.
KeyRequest request_at_peak(const Timeline& timeline,
                           const std::vector<cachalot_trace_event>& events);

}  // namespace cachalot::cli
