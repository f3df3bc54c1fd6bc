// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/new_range.h"

#include "alloc/pools/private_pool.h"
#include "base/text.h"

namespace cachalot {

// Names the giver, since a pool's source is the caller's own code.
void throw_refusing(const BlockPool& pool, Address address, uint64_t size, const std::string& why) {
  throw_invalid_state((has_source(pool) ? "the pool's source gave " : "the driver gave ") +
                      range_text(address, size) + why);
}

void require_apart(const SegmentHeap& heap, const BlockPool& pool, Address address, uint64_t size) {
  const Segment* const other = heap.segment_in(address, size);
  if (!other) return;
  throw_refusing(pool, address, size,
                 ", where " + range_text(other->address, other->size) + " are in use");
}

}  // namespace cachalot
