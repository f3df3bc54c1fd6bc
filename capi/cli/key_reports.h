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

KeyRequest request_of(const cachalot_trace_event& event, uint64_t index, bool is_behind);

// In the order of the requests, as cachalot_report_json has them; "" where nothing was there yet, and for requests in
// private pools, since a report is about those that the calling thread would make. Throws Failure.
std::vector<std::string> reports_of(const cachalot_trace* trace, const ReplayCall& call,
                                    const Timeline& timeline,
                                    const std::vector<KeyRequest>& requests);

// Of the requests that needed the driver: the one that most memory was obtained for although as much was cached, the last
// such; of size 0 if nothing was ever cached then.
KeyRequest fragmented_request(const Timeline& timeline,
                              const std::vector<cachalot_trace_event>& events);

}  // namespace cachalot::cli
