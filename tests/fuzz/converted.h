// SPDX-License-Identifier: MIT OR Apache-2.0
// What the fuzzers of readers expect: a file is refused in one line, or what comes of it is a trace.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "../../capi/cli/failure.h"
#include "check.h"
#include "sized.h"

namespace cachalot_test {

inline int64_t read_rest(void* user_data, void* buffer, size_t capacity) {
  auto& rest = *static_cast<std::string_view*>(user_data);
  const size_t count = std::min(capacity, rest.size());
  std::memcpy(buffer, rest.data(), count);
  rest.remove_prefix(count);
  return static_cast<int64_t>(count);
}

inline int32_t drop(void*, const void*, size_t) { return 0; }

// As `cachalot convert --to pickle` does.
inline void replay_converted(const cachalot_trace* trace) {
  auto options = sized<cachalot_replay_options>();
  options.history = 1;
  options.config = "";
  cachalot_replay* replay = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  const auto refusals = {CACHALOT_ERROR_IO, CACHALOT_ERROR_INVALID_ARGUMENT,
                         CACHALOT_ERROR_INVALID_STATE, CACHALOT_ERROR_OUT_OF_MEMORY};
  if (!worked(cachalot_replay_run(trace, &options, &replay, &error), error, refusals)) return;
  cachalot_snapshot* snapshot = nullptr;
  require(cachalot_replay_snapshot(replay, &snapshot, &error) == CACHALOT_OK, "no snapshot",
          error.message);
  cachalot_replay_destroy(replay);
  require(cachalot_snapshot_write_pickle(snapshot, nullptr, drop, nullptr, &error) == CACHALOT_OK,
          "no pickle", error.message);
  cachalot_snapshot_destroy(snapshot);
}

// convert(): gives the trace's text, or throws Failure.
template <class Convert>
void check_converted(Convert convert) {
  std::string text;
  try {
    text = convert();
  } catch (const cachalot::cli::Failure& failure) {
    const std::string_view what = failure.what();
    require(!what.empty() && what.find('\n') == std::string_view::npos, "not one line",
            std::string(what));
    return;
  }
  std::string_view rest = text;
  cachalot_trace* trace = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  require(cachalot_trace_read(read_rest, &rest, &trace, &error) == CACHALOT_OK, "no trace",
          error.message);
  replay_converted(trace);
  cachalot_trace_destroy(trace);
}

}  // namespace cachalot_test
