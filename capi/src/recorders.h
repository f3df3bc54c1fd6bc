// SPDX-License-Identifier: MIT OR Apache-2.0
// The recorders of one allocator, by the ids that callers know them by.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "alloc/allocator.h"
#include "alloc/trace/log.h"
#include "base/mutex.h"
#include "replay/history_recorder.h"

namespace cachalot::capi {

// What the header of a trace says of the allocator.
TraceHeader trace_header_of(Allocator& core);

// Bytes that a bounded recording needs at least.
inline constexpr uint64_t kLeastKeptBytes = uint64_t{2} << 20;

// Any thread. Made after the core, and gone before it.
class Recorders {
 public:
  Recorders(Allocator& core, LogSink log) : core_(core), log_(std::move(log)) {}
  // Stops them.
  ~Recorders();
  Recorders(const Recorders&) = delete;
  Recorders& operator=(const Recorders&) = delete;

  // Fills the header but for the workload. Throws Error.
  uint64_t start(RecorderOptions options);
  // False: no recorder has the id.
  bool stop(uint64_t id);
  // Throws if no recorder has the id.
  std::shared_ptr<HistoryRecorder> get(uint64_t id) const;

 private:
  uint64_t attach(const std::shared_ptr<HistoryRecorder>& recorder);

  Allocator& core_;
  const LogSink log_;
  mutable Mutex lock_{LockRank::kRecorders};  // of the map
  std::map<uint64_t, std::shared_ptr<HistoryRecorder>> recorders_;
};

}  // namespace cachalot::capi
