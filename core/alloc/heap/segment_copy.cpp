// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/segment_copy.h"

#include <algorithm>
#include <new>

namespace cachalot {
namespace {

BlockState state_of(const Block& block) {
  if (block.is(Block::kUsed)) return BlockState::kAllocated;
  return block.is(Block::kWaiting) ? BlockState::kPendingFree : BlockState::kInactive;
}

BlockCopy row_of(const Block& block) {
  return {{block.address, block.size, block.requested, state_of(block), block.detail().context},
          block.is(Block::kUnmapped),
          block.detail().segment_context};
}

}  // namespace

void SegmentCopy::preserve(const Block* block) noexcept try {
  CACHALOT_ASSERT(1, block->segment() == segment);
  // A block before that place is copied already, so its change is later than the moment.
  if (block->address >= copied_to) rows.push_back(row_of(*block));
} catch (const std::bad_alloc&) {
  is_lost = true;
}

// A block that another call has preserved is passed over: its row is there already, with the state
// of the moment.
bool SegmentCopy::copy(int blocks, uint32_t number) noexcept {
  if (!cursor) cursor = segment->first();
  const Block* const end = &segment->ends;
  for (; blocks > 0 && cursor != end; blocks--, cursor = cursor->next) {
    CACHALOT_ASSERT(1, cursor->segment() == segment);
    const bool was_preserved = number != 0 && cursor->detail().preserved_for == number;
    if (!was_preserved) preserve(cursor);
    copied_to = std::max(copied_to, cursor->address + cursor->size);
  }
  return cursor != end;
}

}  // namespace cachalot
