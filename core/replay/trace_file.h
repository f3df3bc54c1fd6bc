// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces as files: trace formats 1 and 2 (docs/trace-format.md). Format 1 is what is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "alloc/trace/history.h"
#include "replay/trace.h"

namespace cachalot {

// Reads up to `capacity` bytes and gives their number, 0 at the end. May throw.
using ReadBytes = std::function<size_t(char* buffer, size_t capacity)>;
// May throw.
using WriteBytes = std::function<void(std::string_view bytes)>;

// Reads to the end. Throws Error(kIo) with the number of the line for what is no trace.
Trace read_trace(const ReadBytes& read);

// Writes what the rings of all devices hold, oldest first.
void write_trace(const TraceHeader& header, const std::vector<std::vector<TraceEntry>>& rings,
                 const WriteBytes& write);

}  // namespace cachalot
