// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies of the blocks of a device at one moment, while hits go on.
//
// Note [Copying blocks]
// Rationale: a snapshot shows one moment, but copying 100,000 blocks takes milliseconds, and no hit
// may wait so long.
// Approach: the moment is when kCopying is set. From then on a call that changes a block first
// preserves its row, once (`preserved_for`), and the snapshot walks through each segment, a few
// blocks at a time under their shard's lock, and copies the unchanged ones. Misses wait, since the
// snapshot has the device's lock. At the end the snapshot drops the flag and takes each shard's
// lock once more, so that no call is left that saw the flag.
// Invariants: of a block that was there at the moment, and whose address is not before `copied_to`,
// either the row has been preserved, and all blocks that lie there now are marked so, or it is
// unchanged. `cursor`, once begun, is a block of the segment, or its end.
#pragma once

#include <cstdint>
#include <deque>

#include "alloc/heap/block.h"
#include "alloc/trace/snapshot.h"
#include "base/assert.h"

namespace cachalot {

// A row of the snapshot, with what the snapshot needs to cut rows into segments.
struct BlockCopy {
  BlockRow block;
  bool is_unmapped;
  ContextId segment_context;
};

// Owns the rows that were copied so far. The lock of the segment's shard guards all of it but
// `segment`.
struct SegmentCopy {
  explicit SegmentCopy(const Segment* of) : segment(of) { CACHALOT_ASSERT(1, of); }

  const Segment* segment;
  const Block* cursor = nullptr;  // the next to be copied; null: not begun
  Address copied_to = 0;          // blocks that begin before it are copied
  bool is_lost = false;           // there was no memory for a row
  std::deque<BlockCopy> rows;

  // Does not fail: the call that changes the block goes on without memory, the snapshot fails
  // instead.
  void preserve(const Block* block) noexcept;
  // Copies at most so many blocks. False: none are left. number: the copy for which other calls may
  // have preserved rows; 0: there is no such copy.
  bool copy(int blocks, uint32_t number) noexcept;
  // One block has taken in its neighbour, whose object may now stand for another block.
  void absorbed(const Block* gone, const Block* by) {
    CACHALOT_ASSERT(1, gone != by && by->segment() == segment);
    if (cursor == gone) cursor = by;
  }
};

}  // namespace cachalot
