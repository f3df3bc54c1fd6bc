// SPDX-License-Identifier: MIT OR Apache-2.0
// Who holds the memory of a device, and what is in the way of a request: an immutable copy, its
// text and its JSON.
//
// Every byte that is reserved is either held (a live block, in one row of the holders) or cached
// (free or waiting, in one row by the reason why the request cannot have it). Nothing is changed,
// and the driver is asked for its free memory only: frees whose events are done by now still count
// as waiting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/config/pool_id.h"
#include "device/device.h"

namespace cachalot {

// The first that applies, in this order. The numbers are those of CACHALOT_REASON_*.
enum class Reason : int32_t {
  kUsable,          // none, or there is no request
  kPendingEvents,   // freed; work on other streams is left
  kPendingCapture,  // freed while captures may be under way
  kOtherPool,
  kOtherClass,  // small blocks for a large request, or the other way round
  kOtherStream,
  kExpandable,  // of expandable segments, which the request may not use [core 6.4 b]
  kTooSmall,
  kNotSplit,  // max_split_size, or that it is whole, forbids to split it for so little [core 6.6]
};
inline constexpr int kReasonCount = 9;

// The fate of the request. The numbers are those of CACHALOT_OUTCOME_*.
enum class Outcome : int32_t {
  kNoRequest,
  kFromCache,
  kFromDevice,  // the device has enough and no limit is in the way, or a pool's own source is asked
  kAfterRelease,  // if cached memory goes first, or by a pool that serves when nothing else does
  kFails,
};
inline constexpr int kOutcomeCount = 5;

// "other_stream"; null for a number that is none.
const char* reason_name(int32_t reason);
// "from_cache"; null for a number that is none.
const char* outcome_name(int32_t outcome);

// Live blocks that have all of these in common.
struct HolderRow {
  std::string label;    // "": none, or labels are not tracked
  uint32_t tenant = 0;  // 0: none
  Stream stream = 0;
  PoolId pool;
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t requested = 0;
};

// Free or waiting blocks that the request cannot have for one reason. Bytes.
struct CachedRow {
  Reason reason = Reason::kUsable;
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t largest = 0;
  uint64_t releasable = 0;
};

// Bytes, where nothing else is said.
// A report adds up: reserved = allocated + pending + cached; the rows of the holders have the
// allocated bytes, those of the reasons all others.
struct Report {
  int32_t device = 0;
  Outcome outcome = Outcome::kNoRequest;

  // The request; all 0 without one.
  uint64_t requested = 0;
  uint64_t size = 0;          // rounded
  uint64_t segment_size = 0;  // that the driver would be asked for
  Stream stream = 0;
  PoolId pool;
  bool is_small = false;

  uint64_t device_total = 0;
  uint64_t device_free = 0;
  uint64_t limit = 0;      // 0: none
  uint64_t reserved = 0;   // = allocated + pending + cached
  uint64_t allocated = 0;  // live blocks
  uint64_t pending = 0;    // waiting ones
  uint64_t cached = 0;     // free ones
  uint64_t largest_free_block = 0;
  uint64_t releasable = 0;  // whole free segments and pages: what a trim of everything gives back
  uint64_t asleep = 0;      // of pools that sleep, which are not reserved

  std::vector<HolderRow> holders;  // most bytes first
  std::vector<CachedRow> reasons;  // most bytes first
  std::string advice;  // what options would have made room (oom_hints.h); "": not needed
};

// A table of one screen.
std::string report_text(const Report& report);
// One object; docs/serving.md has its keys.
std::string report_json(const Report& report);

}  // namespace cachalot
