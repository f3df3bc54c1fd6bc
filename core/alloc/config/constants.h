// SPDX-License-Identifier: MIT OR Apache-2.0
// Every number that is behaviour [core 2]. Bytes.
#pragma once

#include "base/units.h"

namespace cachalot {

// The granularity of sizes and addresses of blocks, and the smallest block.
inline constexpr uint64_t kMinBlockSize = 512;
// The largest size of the small pool, and the split threshold of the large one.
inline constexpr uint64_t kSmallSize = 1 * MiB;
// A segment of the small pool, and the page of a small expandable segment.
inline constexpr uint64_t kSmallSegment = 2 * MiB;
// The segment for sizes from kSmallSize to kMinLargeAlloc, where no option changes it.
inline constexpr uint64_t kDefaultLargeSegment = 20 * MiB;
// From this size on a segment is made for the request alone, and rounded up to kRoundLarge.
inline constexpr uint64_t kMinLargeAlloc = 10 * MiB;
inline constexpr uint64_t kRoundLarge = 2 * MiB;
// A request of this size fails before any lock is taken [core 3.2].
inline constexpr uint64_t kTooLarge = uint64_t{1} << 60;
// Intervals of roundup_power2_divisions: slot i begins at 2^(20+i) bytes [core 4.4].
inline constexpr int kRoundupSlots = 16;

static_assert(kSmallSize % kMinBlockSize == 0 && kSmallSegment % kMinBlockSize == 0);
static_assert(kSmallSize < kSmallSegment && kMinLargeAlloc < kDefaultLargeSegment);

}  // namespace cachalot
