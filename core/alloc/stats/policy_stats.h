// SPDX-License-Identifier: MIT OR Apache-2.0
// What a policy of the library's own counts of one device (docs/policy.md).
#pragma once

#include <cstdint>

namespace cachalot {

// Sums since the allocator was made, never reset; but for pinned_bytes they are 0 where the reference decides.
struct PolicyStats {
  uint64_t pages_created = 0;
  uint64_t pages_moved = 0;     // from cached blocks to where they were missing
  uint64_t pages_released = 0;  // to the driver
  uint64_t blocks_borrowed = 0;
  uint64_t stream_waits = 0;  // of a stream for another
  uint64_t host_waits = 0;    // for a stream or the device
  uint64_t pinned_bytes = 0;  // of pages and plain segments, now

  bool operator==(const PolicyStats&) const = default;
};

}  // namespace cachalot
