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

// An event that is recorded for all work of a context, of those that nobody uses.
struct ContextEvent {
  EventHandle event = nullptr;  // null: the work is done, or there is an error
  Result result = 0;
};
// Where no event can be had (an old driver, a full device) it waits. Nothing where a stream is captured.
std::optional<ContextEvent> record_for_context(DriverContext* context);
// Nobody uses the event any longer.
void give_event(DriverContext* context, EventHandle event) noexcept;

// By an event. Nothing where that cannot be: a stream is captured, or no event can be had.
std::optional<Result> wait_for_event_of_context(DriverContext* context);

// By an event or, where none can be had, by the driver's own wait, while which no capture begins. Nothing where a stream
// is captured.
std::optional<Result> wait_for_context(DriverContext* context);

}  // namespace cachalot::proxy
