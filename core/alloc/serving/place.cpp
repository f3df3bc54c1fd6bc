// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/serving/place.h"

#include <algorithm>
#include <utility>

#include "alloc/heap/page_table.h"
#include "base/units.h"

namespace cachalot {
namespace {

Address end_of(const Block* block) { return block->address + block->size; }

// Bytes of the whole pages between two addresses of a range.
uint64_t whole_pages_between(const Segment& range, Address begin, Address end) {
  const auto [first, last] = range.pages->whole_pages(begin, end - begin);
  return last - first;
}

}  // namespace

std::optional<Place> PlaceSearch::fewest_missing() {
  return search([](const Place& a, const Place& b) {
    return std::pair(a.missing, a.cached) < std::pair(b.missing, b.cached);
  });
}

std::optional<Place> PlaceSearch::fewest_pages() {
  return search([](const Place& a, const Place& b) {
    return std::pair(a.pages(), a.missing) < std::pair(b.pages(), b.missing);
  });
}

std::optional<Place> PlaceSearch::search(IsBetter is_better) const {
  std::optional<Place> best;
  Address visited_end = 0;
  const auto [first_hole, end] = pool_.unmapped.equal_range(stream_);
  for (auto hole = first_hole; hole != end; ++hole) {
    Block* first = *hole;
    if (first->address < visited_end) continue;
    while (is_open(first->prev)) first = first->prev;
    visited_end = visit_run(first, is_better, &best);
  }
  return best;
}

// Gives the end of the run.
Address PlaceSearch::visit_run(Block* first, IsBetter is_better, std::optional<Place>* best) const {
  Block* before = first->prev;
  while (before->is_free()) before = before->prev;  // others may merge with the run
  Block* end = first;
  while (is_open(end)) end = end->next;
  const Address run_end = end_of(end->prev);
  const auto consider = [&](const Block* at, Address begin) {
    if (run_end - begin < size_) return;
    const Place place = place_at(before, at, begin);
    if (!*best || is_better(place, **best)) *best = place;
  };
  for (Block* b = first; b != end; b = b->next) {
    consider(b, b->address);
    if (b->is(Block::kUnmapped) || end_of(b) - first->address < size_) continue;
    const Block* at = b;
    while (at->address > end_of(b) - size_) at = at->prev;
    consider(at, end_of(b) - size_);
  }
  return run_end;
}

// first: the block that has the place's first byte.
Place PlaceSearch::place_at(Block* before, const Block* first, Address begin) const {
  Place place{before, begin, size_, 0, 0};
  const Segment& range = *first->segment();
  const uint64_t page = range.pages->page_size();
  for (const Block* b = first; is_open(b) && b->address < place.end(); b = b->next) {
    const Address from = std::max(begin, b->address);
    const Address to = std::min(place.end(), end_of(b));
    if (b->is(Block::kUnmapped)) {
      place.missing += round_up(to - range.address, page) - round_down(from - range.address, page);
    } else {
      place.cached += whole_pages_between(range, b->address, end_of(b)) -
                      whole_pages_between(range, b->address, from) -
                      whole_pages_between(range, to, end_of(b));
    }
  }
  return place;
}

}  // namespace cachalot
