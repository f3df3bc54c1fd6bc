// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/serving/waiting_holes.h"

#include <algorithm>
#include <utility>

#include "alloc/native/expandable_memory.h"
#include "base/reserve.h"
#include "base/text.h"

namespace cachalot {

void WaitingHoles::reserve_one() {
  reserve_one_more(holes_);
  next_place_ = BlockPool::new_unmapped();
}

void WaitingHoles::add(Block* hole, uint64_t stamp) {
  CACHALOT_ASSERT(1, !next_place_.empty() && holes_.size() < holes_.capacity());
  CACHALOT_ASSERT(1, hole->is(Block::kUnmapped) && hole->is(Block::kWaiting));
  holes_.push_back({hole, stamp, std::move(next_place_)});
}

void WaitingHoles::end_until(uint64_t stamp, const Segment* keep) {
  for (Hole& hole : holes_) {
    if (hole.stamp <= stamp) end(std::move(hole), keep);
  }
  std::erase_if(holes_, [](const Hole& hole) { return hole.place.empty(); });
}

void WaitingHoles::end(Hole hole, const Segment* keep) {
  ExpandableMemory memory(device_);
  memory.end_waiting(hole.block, std::move(hole.place));
  const Segment& range = *hole.block->segment();
  if (!hole.block->is_split() && range.has_stream_ended && &range != keep)
    memory.remove_range(hole.block);
}

std::string WaitingHoles::check() const {
  size_t waiting = 0;
  device_.heap.for_each_block(
      [&](const Block* b) { waiting += b->is(Block::kUnmapped) && b->is(Block::kWaiting); });
  if (waiting == holes_.size()) return "";
  return format("%d holes wait where %d are listed", static_cast<int>(waiting),
                static_cast<int>(holes_.size()));
}

}  // namespace cachalot
