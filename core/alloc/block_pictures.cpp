// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/block_pictures.h"

#include <algorithm>
#include <new>

namespace cachalot {
namespace {

BlockState state_of(const Block& block) {
  if (block.is(Block::kUsed)) return BlockState::kAllocated;
  return block.is(Block::kWaiting) ? BlockState::kPendingFree : BlockState::kInactive;
}

PictureRow row_of(const Block& block) {
  return {{block.address, block.size, block.requested, state_of(block), block.detail().context},
          block.is(Block::kUnmapped),
          block.detail().segment_context};
}

}  // namespace

void SegmentPicture::keep(const Block* block) noexcept try {
  CACHALOT_ASSERT(1, block->segment() == segment);
  if (block->address >= copied_to) rows.push_back(row_of(*block));
} catch (const std::bad_alloc&) {
  is_lost = true;
}

bool SegmentPicture::copy(int blocks, uint32_t number) noexcept {
  if (!cursor) cursor = segment->first();
  const Block* const end = &segment->ends;
  for (; blocks > 0 && cursor != end; blocks--, cursor = cursor->next) {
    CACHALOT_ASSERT(1, cursor->segment() == segment);
    const bool was_kept = number != 0 && cursor->detail().pictured == number;
    if (!was_kept) keep(cursor);
    copied_to = std::max(copied_to, cursor->address + cursor->size);
  }
  return cursor != end;
}

}  // namespace cachalot
