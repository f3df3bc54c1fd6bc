// SPDX-License-Identifier: MIT OR Apache-2.0
// History: entries of events, and the ring that keeps them [core 22].
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "alloc/config/pool_id.h"
#include "device/device.h"

namespace cachalot {

// The numbers are those of cachalot_action.
enum class Action : int32_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOom,
  kAnnotate,
  // In recordings of programs only, which no history has (docs/trace-format.md).
  kLiveAtBegin,
  kOtherAlloc,
  kOtherFree,
  kCallEnd,
  kContextEnd,
  kStreamCreate,
  kStreamDestroy,
  kCaptureBegin,
  kCaptureEnd,
  kStreamWait,
  kContextWait,
  kExport,
  kRecordingEnd,
};
inline constexpr int kActionCount = 10;          // those of a history
inline constexpr int kRecordedActionCount = 23;  // with those of recordings

const char* action_name(Action action);

using ContextId = uint64_t;  // 0: none
inline constexpr ContextId kNoContext = 0;

// The entries that keep a context; each level includes those before [core 22.4].
enum class ContextLevel : int32_t { kNever, kState, kAlloc, kAll };

// One event. Times are of the system's clock, in microseconds since 1970, as the reference's are.
struct TraceEntry {
  Action action;
  int32_t device;
  Address address;
  uint64_t size;
  Stream stream;
  PoolId pool;
  ContextId context;
  int64_t time_us;
  std::shared_ptr<const std::string> metadata;  // null: none
  const char* internal_metadata;                // "" or a literal
};

// The ring of one device. The order of its entries is the reference's, also where a changed limit
// disturbs it [core 22.1, U11], unless that is mended.
class HistoryRing {
 public:
  // keep_order: entries above the new limit go, oldest first. Without it they stay where they are,
  // as in the reference (U11).
  void set_limit(uint64_t max_entries, bool keep_order);
  // The place of the next entry, which the caller fills: a new one, or that of the oldest. Throws
  // std::bad_alloc.
  TraceEntry& next();
  void clear();
  std::vector<TraceEntry> entries() const;

 private:
  TraceEntry& append();
  void drop_oldest();

  std::vector<TraceEntry> entries_;
  // Kept as a flag, so that a hit compares no sizes.
  bool is_full_ = false;  // as many entries as the limit, or more
  uint64_t limit_ = 1;
  uint64_t next_ = 0;
};

}  // namespace cachalot
