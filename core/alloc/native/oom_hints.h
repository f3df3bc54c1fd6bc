// SPDX-License-Identifier: MIT OR Apache-2.0
// Which options would have made room for a request that failed as out of memory: the line behind
// the reference's text.
//
// A remedy is named only where the state at the failure shows that it would have served this
// request. Each function gives one clause, or nothing.
#pragma once

#include <string>

#include "alloc/native/device_allocator.h"

namespace cachalot {

class DeviceAllocator::OomHints {
 public:
  OomHints(DeviceAllocator& device, const AllocParams& params, uint64_t device_free,
           uint64_t device_total)
      : device_(device),
        settings_(device.settings_),
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

  uint64_t page_size(const BlockPool& pool) const;
  bool would_reserve_be_too_small() const;  // if the segment were expandable
  uint64_t releasable_bytes() const;
  uint64_t releasable_bytes(const BlockPool& pool) const;
  int64_t gain_from_pages(const Segment& segment) const;

  DeviceAllocator& device_;
  const Settings& settings_;
  const AllocParams& params_;
  const uint64_t device_free_;
  const uint64_t device_total_;
};

}  // namespace cachalot
