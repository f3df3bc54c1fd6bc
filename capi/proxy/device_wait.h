// SPDX-License-Identifier: MIT OR Apache-2.0
// The wait for all work of a context.
//
// Note [The wait inside a free]
// Rationale: cuMemFree and its like wait until all work of the context is done, then give the memory back. What it
// takes to wait, an allocator that keeps the promise takes as well; the rest it saves. From outside one cannot
// tell them apart.
// Approach: right before the call the recorder waits itself, for an event of the whole context, and measures it.
// Limitations: drivers before 12.5 have no such event, and nothing is measured while a stream is captured
// (captures.h). An idle device costs about half a microsecond.
#pragma once

#include <optional>

#include "contexts.h"

namespace cachalot::proxy {

// An event that is recorded for all work of the context, of those that nobody uses; null where that cannot be: a stream
// is captured, the driver has no such event, or it gives an error.
EventHandle record_for_context(DriverContext* context);
// Nobody uses the event any longer.
void give_event(DriverContext* context, EventHandle event);

// By an event. Nothing where that cannot be: a stream is captured, or the driver has no such event.
std::optional<Result> wait_for_context(DriverContext* context);

// By the driver's own wait, which every driver has, while no capture may begin. Nothing where a stream is captured.
std::optional<Result> synchronize_context(const DriverContext& context);

}  // namespace cachalot::proxy
