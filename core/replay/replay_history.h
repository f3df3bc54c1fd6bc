// SPDX-License-Identifier: MIT OR Apache-2.0
// The history of a replay, with the times and contexts of the recording instead of the replay's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "alloc/trace/history.h"
#include "alloc/trace/snapshot.h"
#include "replay/trace.h"

namespace cachalot {

using HistoryOfDevices = std::vector<std::vector<TraceEntry>>;

// The recorded events themselves, where the replay did the same.
HistoryOfDevices recorded_history(const Trace& trace);

class ReplayHistory {
 public:
  explicit ReplayHistory(const Trace& trace);

  // The event that is replayed next.
  void set_event(size_t index);
  // What the allocator did.
  void see(const TraceEntry& entry);

  HistoryOfDevices take();

 private:
  const TraceEvent& told_by(const TraceEntry& entry) const;

  const Trace& trace_;
  size_t index_ = 0;
  int64_t time_us_ = 0;  // the last that was told
  HistoryOfDevices entries_;
};

// The contexts of live blocks, as the history tells them.
void set_contexts(Snapshot* snapshot);

}  // namespace cachalot
