// SPDX-License-Identifier: MIT OR Apache-2.0
// Compares the events of a replay with the recorded ones, each device's in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "replay/trace.h"

namespace cachalot {

inline constexpr size_t kNoDifference = SIZE_MAX;

struct EventDifferences {
  uint64_t count = 0;
  size_t first = kNoDifference;  // index in the trace
  std::string expected;          // of the first
  std::string actual;
};

class EventComparison {
 public:
  explicit EventComparison(const Trace& trace);

  void see(const TraceEntry& entry);
  // Recorded events that did not come are differences too.
  void finish();

  const EventDifferences& differences() const { return differences_; }

 private:
  size_t next_of(size_t index, int device) const;
  bool is_same(const TraceEvent& event, const TraceEntry& entry) const;
  void note(size_t index, std::string actual);
  std::string describe(const TraceEvent& event) const;

  const Trace& trace_;
  std::vector<size_t> next_;  // by device: the recorded event that has to come
  EventDifferences differences_;
};

}  // namespace cachalot
