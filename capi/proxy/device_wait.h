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

#include "captures.h"
#include "contexts.h"

namespace cachalot::proxy {

// Gives whether it has waited.
bool wait_for_context(DriverContext* context, Captures* captures);

}  // namespace cachalot::proxy
