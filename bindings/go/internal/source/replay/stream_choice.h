// SPDX-License-Identifier: MIT OR Apache-2.0
// Made-up streams for frees that were completed late.
//
// A recording does not say on which stream a block was in use. Any choice will do under which the
// frees are completed in the recorded order: on one stream work is done in the order in which it
// was queued, and one look at all streams visits them in ascending order.
#pragma once

#include <vector>

#include "replay/trace.h"

namespace cachalot {

// Each request of a replay looks at every stream with unfinished work, so their number is limited;
// no program has as many.
inline constexpr size_t kMaxMadeUpStreams = 1024;

// Sets the stream of each, few in all, and sorts them by the time of their request. False: more
// streams than kMaxMadeUpStreams are needed, and none is set.
bool choose_streams(std::vector<LateFree>* late_frees);

}  // namespace cachalot
