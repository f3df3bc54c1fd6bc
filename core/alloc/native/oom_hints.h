// SPDX-License-Identifier: MIT OR Apache-2.0
// Which options would have made room for a request that failed as out of memory: the line behind
// the reference's text.
//
// A remedy is named only where the state at the failure shows that it would have served this
// request. Each function gives one clause, or nothing.
#pragma once

#include <string>

#include "alloc/native/block_cache.h"
#include "alloc/native/segment_limits.h"

namespace cachalot {

// pre: the whole device, in the state in which the request failed. Nothing changes: each remedy is
// computed, not tried.
class OomHints : private DeviceOperation {
 public:
  OomHints(DeviceState& device, const AllocParams& params, uint64_t device_free,
           uint64_t device_total)
      : DeviceOperation(device),
        cache_(device),
        limits_(device),
        params_(params),
        device_free_(device_free),
        device_total_(device_total) {}

  // "cachalot: the largest free block is 12.00 MiB; ...".
  std::string line();

  // What reports ask too.
  bool has_own_source() const { return has_source(*params_.pool); }
  uint64_t bytes_to_obtain(const AllocParams& params) const;
  bool has_room(const AllocParams& params) const;
  bool is_reserve_too_small() const;

 private:
  std::string largest_free_block() const;
  std::string without_limit() const;
  std::string without_oversize_rule() const;
  std::string without_rounding();
  std::string without_rejection() const;
  std::string with_larger_reserve() const;
  std::string with_expandable_segments() const;

  // Of an expandable segment for this pool, whether or not there is one.
  bool would_reserve_be_too_small() const;  // if the segment were expandable
  // Bytes that a release of the whole cache would give back, without frees that wait.
  uint64_t releasable_bytes_of_all() const;
  // Bytes by which the segment would be smaller if it had been made of pages; below 0 where it
  // would hold more.
  int64_t gain_from_pages(const Segment& segment) const;

  const BlockCache cache_;
  const SegmentLimits limits_;
  const AllocParams& params_;
  const uint64_t device_free_;
  const uint64_t device_total_;
};

}  // namespace cachalot
