// SPDX-License-Identifier: MIT OR Apache-2.0
// The words of pinned host memory.
#pragma once

#include "arguments.h"
#include "script.h"

namespace cachalot::differential {

void allocate_pinned(Script& script, Arguments& arguments);
void free_pinned(Script& script, Arguments& arguments);
void record_pinned(Script& script, Arguments& arguments);
void record_pinned_at(Script& script, Arguments& arguments);
void empty_pinned(Script& script, Arguments& arguments);
void begin_pinned_pool(Script& script, Arguments& arguments);
void end_pinned_pool(Script& script, Arguments& arguments);
void release_pinned_pool(Script& script, Arguments& arguments);
void wait_for_background(Script& script, Arguments& arguments);
void pinned_stats(Script& script, Arguments& arguments);
void reset_pinned_peak(Script& script, Arguments& arguments);
void reset_pinned_accumulated(Script& script, Arguments& arguments);

// What `pool_begin` and `host_pool_begin` say behind the pool.
cachalot_pool_route route_of(Arguments& arguments);

}  // namespace cachalot::differential
