// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned memory behind the C interface: PyTorch's allocator of it, or with pinned_config a cache like that
// of a device. Each function does for the second what PinnedAllocator does for the first.
#pragma once

#include <optional>

#include "alloc/stats/pinned_stats.h"
#include "handles.h"

namespace cachalot::capi {

// Of whichever the allocator has; nothing where no pinned memory was used.
std::optional<PinnedStats> pinned_stats_of(const cachalot_allocator& allocator);

class PinnedCacheOfDevice {
 public:
  // pre: the allocator has one.
  explicit PinnedCacheOfDevice(const cachalot_allocator& allocator)
      : core_(allocator.pinned->core),
        base_(allocator.core.driver()),
        driver_(*allocator.pinned_driver) {}

  Address allocate(uint64_t size);
  void free(Address address);
  void record_stream(Address address, int device, Stream stream);
  uint64_t size_of(Address address);
  void empty_cache();
  void release_context();
  PinnedStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();

 private:
  void require_block(Address address);

  Allocator& core_;
  Driver& base_;
  PinnedDriver& driver_;
};

}  // namespace cachalot::capi
