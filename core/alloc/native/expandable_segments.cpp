// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/expandable_segments.h"

#include <algorithm>

#include "alloc/heap/block_pool.h"
#include "alloc/heap/page_table.h"
#include "base/reserve.h"

namespace cachalot {

void ExpandableSegments::reserve_one() { reserve_one_more(segments_); }

void ExpandableSegments::remove(Segment* segment) { std::erase(segments_, segment); }

// A peer that has access already is given none a second time [core 23.4].
void ExpandableSegments::add_peer(int peer) {
  if (std::find(peers_.begin(), peers_.end(), peer) != peers_.end()) return;
  reserve_one_more(peers_);
  // The peer is noted only when all segments have given access: a later attempt then asks them all
  // again.
  for (Segment* segment : segments_) segment->pages->give_access(peer);
  peers_.push_back(peer);
}

std::vector<ExpandableSegmentRow> ExpandableSegments::rows() const {
  std::vector<ExpandableSegmentRow> rows;
  for (const Segment* segment : segments_) {
    if (segment->stream == 0) continue;  // [exp 8.10]
    rows.push_back({segment->stream, segment->pages->mapped_bytes(), segment->pool->is_small});
  }
  return rows;
}

std::pair<uint64_t, uint64_t> ExpandableSegments::totals() const {
  uint64_t bytes = 0;
  for (const Segment* segment : segments_) bytes += segment->pages->reserved_bytes();
  return {bytes, segments_.size()};
}

}  // namespace cachalot
