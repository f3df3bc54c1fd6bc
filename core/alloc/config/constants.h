// SPDX-License-Identifier: MIT OR Apache-2.0
// Every number that is behaviour [core 2]. Bytes.
#pragma once

#include "base/units.h"

namespace cachalot {

inline constexpr uint64_t kMinBlockSize = 512;  // granularity and smallest block
inline constexpr uint64_t kSmallSize =
    1 * MiB;  // largest size of the small pool; split threshold of the large one
inline constexpr uint64_t kSmallSegment =
    2 * MiB;  // segment of the small pool; small expandable page
inline constexpr uint64_t kDefaultLargeSegment =
    20 * MiB;  // segment for sizes from kSmallSize to kMinLargeAlloc
inline constexpr uint64_t kMinLargeAlloc =
    10 * MiB;  // from here on a segment is made for the request alone
inline constexpr uint64_t kRoundLarge = 2 * MiB;          // and rounded up to this
inline constexpr uint64_t kTooLarge = uint64_t{1} << 60;  // fails at once [core 3.2]
inline constexpr int kRoundupSlots = 16;                  // from 2^(20+i), i < 16 [core 4.4]

static_assert(kSmallSize % kMinBlockSize == 0 && kSmallSegment % kMinBlockSize == 0);
static_assert(kSmallSize < kSmallSegment && kMinLargeAlloc < kDefaultLargeSegment);

}  // namespace cachalot
