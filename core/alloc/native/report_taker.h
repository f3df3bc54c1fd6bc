// SPDX-License-Identifier: MIT OR Apache-2.0
// What holds the memory of a device, and what keeps a request from it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "alloc/backend/report.h"
#include "alloc/native/block_cache.h"
#include "alloc/native/oom_hints.h"
#include "alloc/native/segment_limits.h"

namespace cachalot {

// Walks through all segments once. pre: the whole device.
// Owns the report while it grows. Nothing of the device changes: the steps of a request are
// followed without being taken.
class ReportTaker : private DeviceOperation {
 public:
  explicit ReportTaker(DeviceState& device);

  Report take(const Request& request);

 private:
  using Holder = std::tuple<uint32_t, uint32_t, Stream, PoolId>;  // label, tenant

  void set_request(const Request& request);
  void set_totals();
  // Puts a block into exactly one row: of a holder, or of a reason.
  void add(const Block* block);
  void add_holder(const Block* block);
  void add_cached(const Block* block);
  // Why the request cannot have a block that is not live; of the second function: one that is free.
  Reason reason_for(const Block* block) const;
  Reason reason_in_cache(const Block* block) const;
  bool serves_when_nothing_else_does(const PrivatePool* pool) const;
  // The bytes of the block that a trim of everything would give back.
  uint64_t bytes_to_trim(const Block* block) const;
  Outcome outcome(const OomHints& oom_hints) const;
  bool has_room_after_release(const OomHints& oom_hints) const;
  void sort_rows();

  const BlockCache cache_;
  const SegmentLimits limits_;
  // No memory goes back while a capture may be under way, so a report then counts none as
  // releasable.
  const bool may_release_;
  std::set<const Block*> deferred_;
  std::optional<AllocParams> params_;  // none: no request
  std::map<Holder, HolderRow> holders_;
  std::array<CachedRow, kReasonCount> reasons_;
  Report report_;
};

}  // namespace cachalot
