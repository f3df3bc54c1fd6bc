// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces in tests: texts as files.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "replay/trace_file.h"

namespace cachalot {

inline constexpr const char* kHeader =
    "# {\"workload\": \"test\", \"torch\": \"2.11.0+cu130\", \"warm_up\": 0}\n";

// Reads a text, in pieces of at most so many bytes.
inline Trace read_text(const std::string& text, size_t piece = SIZE_MAX) {
  size_t at = 0;
  return read_trace([&](char* buffer, size_t capacity) {
    const size_t count = std::min({capacity, piece, text.size() - at});
    std::memcpy(buffer, text.data() + at, count);
    at += count;
    return count;
  });
}

inline Trace read_events(const std::string& events) { return read_text(kHeader + events); }

}  // namespace cachalot
