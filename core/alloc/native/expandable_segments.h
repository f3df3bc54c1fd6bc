// SPDX-License-Identifier: MIT OR Apache-2.0
// Which expandable segments a device has, and which other devices reach their pages.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "alloc/heap/block.h"
#include "alloc/trace/snapshot.h"

namespace cachalot {

// Invariants: each peer has access to all pages of each segment.
class ExpandableSegments {
 public:
  // In the order of their creation. reserve_one() makes sure that the next add() does not throw.
  void reserve_one();
  void add(Segment* segment) { segments_.push_back(segment); }
  void remove(Segment* segment);

  // Devices that new pages are to be given access for.
  const std::vector<int>& peers() const { return peers_; }
  // Throws what the driver says; some segments may have given access then.
  void add_peer(int peer);

  std::vector<ExpandableSegmentRow> rows() const;
  // Reserved bytes, and how many segments there are.
  std::pair<uint64_t, uint64_t> totals() const;

 private:
  std::vector<Segment*> segments_;
  std::vector<int> peers_;
};

}  // namespace cachalot
