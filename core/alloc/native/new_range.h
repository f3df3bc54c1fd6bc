// SPDX-License-Identifier: MIT OR Apache-2.0
// Refuses ranges of the driver or of a pool's source that cannot be memory of the device.
#pragma once

#include <string>

#include "alloc/config/constants.h"
#include "alloc/heap/segment_heap.h"
#include "device/address_range.h"

namespace cachalot {

[[noreturn]] void throw_refusing(const BlockPool& pool, Address address, uint64_t size,
                                 const std::string& why);

// Throws where a new range lies over a segment. The caller keeps such a range: giving it back would
// take the segment's memory.
void require_apart(const SegmentHeap& heap, const BlockPool& pool, Address address, uint64_t size);

// Throws for a range that is no memory or lies over a segment. Only the former goes back first.
template <class GiveBack>
void require_new_range(const SegmentHeap& heap, const BlockPool& pool, Address address,
                       uint64_t size, const GiveBack& give_back) {
  const char* const flaw = flaw_of_range(address, size, kMinBlockSize);
  if (!flaw) return require_apart(heap, pool, address, size);
  if (address != 0) give_back();
  throw_refusing(pool, address, size, std::string(": ") + flaw);
}

}  // namespace cachalot
