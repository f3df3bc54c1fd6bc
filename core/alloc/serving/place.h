// SPDX-License-Identifier: MIT OR Apache-2.0
// Where a block can lie among the cached blocks and holes of its stream's ranges [policy P7].
#pragma once

#include <cstdint>
#include <optional>

#include "alloc/heap/block_pool.h"

namespace cachalot {

struct Place {
  // Not free, or the end of the range: it stays while cached blocks and holes change, since no waiting hole ends
  // between the search and the use of the place.
  Block* before;
  Address begin;
  uint64_t size;
  uint64_t missing;  // bytes of pages that nothing backs
  uint64_t cached;   // bytes of whole pages of cached blocks that it touches

  Address end() const { return begin + size; }
  uint64_t pages() const { return missing + cached; }
};

// Looks at each maximal run of cached blocks and holes that has a hole: a place begins where a block
// begins, or ends where a cached block ends. pre: the whole device; no cached block of the stream is large
// enough.
class PlaceSearch {
 public:
  // may_wait: also for places in memory that other streams used.
  PlaceSearch(const BlockPool& pool, Stream stream, uint64_t size, bool may_wait)
      : pool_(pool), stream_(stream), size_(size), may_wait_(may_wait) {}

  // The first by address of those with the fewest pages to map, then with the fewest cached pages. None:
  // no run is long enough.
  std::optional<Place> fewest_missing();
  // The same by all pages that it takes, then by those to map.
  std::optional<Place> fewest_pages();

 private:
  bool is_open(const Block* block) const {
    return block->is_free() && (may_wait_ || !block->is(Block::kForeign));
  }
  using IsBetter = bool (*)(const Place& a, const Place& b);

  std::optional<Place> search(IsBetter is_better) const;
  Address visit_run(Block* first, IsBetter is_better, std::optional<Place>* best) const;
  Place place_at(Block* before, const Block* first, Address begin) const;

  const BlockPool& pool_;
  const Stream stream_;
  const uint64_t size_;
  const bool may_wait_;
};

}  // namespace cachalot
