// SPDX-License-Identifier: MIT OR Apache-2.0
// Attributes of a stream-ordered memory pool and of a device's graph memory, by their numbers in
// cuda.h (CUmemPool_attribute, CUgraphMem_attribute). Bytes; the reuse attributes are flags.
#pragma once

#include <cstdint>

namespace cachalot {

namespace pool_attribute {
inline constexpr int32_t kReuseFollowEventDependencies = 1;
inline constexpr int32_t kReuseAllowOpportunistic = 2;
inline constexpr int32_t kReuseAllowInternalDependencies = 3;
inline constexpr int32_t kReleaseThreshold = 4;
inline constexpr int32_t kReservedCurrent = 5;
inline constexpr int32_t kReservedHigh = 6;
inline constexpr int32_t kUsedCurrent = 7;
inline constexpr int32_t kUsedHigh = 8;
}  // namespace pool_attribute

namespace graph_attribute {
inline constexpr int32_t kUsedCurrent = 0;
inline constexpr int32_t kUsedHigh = 1;
inline constexpr int32_t kReservedCurrent = 2;
inline constexpr int32_t kReservedHigh = 3;
}  // namespace graph_attribute

}  // namespace cachalot
