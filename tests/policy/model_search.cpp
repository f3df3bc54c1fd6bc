// SPDX-License-Identifier: MIT OR Apache-2.0
// Which memory serves a request [policy P5, P7].
#include <algorithm>
#include <tuple>

#include "model.h"

namespace cachalot::policy_model {

// Steps (3) to (5). With thrift idle pages come before new ones, so a loan at the limit comes last.
std::optional<Address> Model::search(const Ask& ask) {
  const bool is_at_limit = options_.borrow == Borrow::kAtLimit && !is(Fault::kLendsTooEarly);
  if (is_at_limit && !options_.thrift)
    if (const auto found = find_place(ask, Pages::kNew)) return found;
  const bool lends_last = (is_at_limit && options_.thrift) || is(Fault::kNewPagesFirst);
  if (!lends_last)
    if (const auto found = borrow(ask)) return found;
  if (const auto found = find_place(ask, Pages::kAny)) return found;
  return lends_last ? borrow(ask) : std::nullopt;
}

std::optional<Address> Model::find_place(const Ask& ask, Pages from) {
  look_at_waiting_holes();
  auto place = best_place(ask, is(Fault::kByAllPages));
  if (!place && reserve(ask)) place = best_place(ask, false);
  if (!place) return {};
  if (fill(*place, ask, from)) return place->begin;
  if (from == Pages::kNew) return {};
  place = best_place(ask, true);
  return fill(*place, ask, from) ? std::optional(place->begin) : std::nullopt;
}

// The smallest block that fits; of equal ones that of the range which was reserved first. Memory that
// other streams used needs a wait, which a capture does not allow.
std::optional<Address> Model::best_fit(const Ask& ask) const {
  const auto is_usable = [&](const Range& range, const Block& block) {
    return is_of(range, ask) && !(may_be_capturing() && is_foreign(range, block));
  };
  return smallest(ask.size, is_usable);
}

// The smallest block that fits, of equal ones that of the lowest stream.
std::optional<Address> Model::borrow(const Ask& ask) const {
  if (options_.borrow == Borrow::kNever || !ask.pool.is_default() ||
      (may_be_capturing() && !is(Fault::kBorrowsInCapture)))
    return {};
  const auto is_usable = [&](const Range& range, const Block&) {
    return range.pool.is_default() && range.is_small == ask.is_small && range.stream != ask.stream;
  };
  return smallest(ask.size, is_usable);
}

template <class IsUsable>
std::optional<Address> Model::smallest(uint64_t size, IsUsable is_usable) const {
  using Key = std::tuple<uint64_t, Stream, uint64_t, Address>;
  std::optional<Key> best;
  for (const Range& range : ranges_) {
    for (const Block& block : range.blocks) {
      if (block.state != State::kCached || block.size < size || !is_usable(range, block)) continue;
      const bool from_behind = is(Fault::kHighestOfEqual);
      const Key key(block.size, range.stream, order_of(range),
                    from_behind ? kUnlimited - block.begin : block.begin);
      if (!best || key < *best) best = key;
    }
  }
  if (!best) return {};
  return is(Fault::kHighestOfEqual) ? kUnlimited - std::get<3>(*best) : std::get<3>(*best);
}

// ---- Places

std::optional<Model::Place> Model::best_place(const Ask& ask, bool by_all_pages) const {
  std::optional<Place> best;
  const auto is_open = [&](const Range& range, const Block& block) {
    return block.is_free() && !(may_be_capturing() && is_foreign(range, block));
  };
  for (const Range& range : ranges_) {
    if (!is_of(range, ask)) continue;
    for (size_t first = 0; first < range.blocks.size(); first++) {
      size_t end = first;
      while (end < range.blocks.size() && is_open(range, range.blocks[end])) end++;
      if (end > first) look_at_run(range, first, end, ask, by_all_pages, &best);
      first = end;
    }
  }
  return best;
}

void Model::look_at_run(const Range& range, size_t first, size_t end, const Ask& ask,
                        bool by_all_pages, std::optional<Place>* best) const {
  const Address run_begin = range.blocks[first].begin;
  const Address run_end = range.blocks[end - 1].end();
  if (run_end - run_begin < ask.size) return;
  std::vector<Address> begins;  // of equal places the first one of the first block
  for (size_t i = first; i < end; i++) {
    const Block& block = range.blocks[i];
    if (run_end - block.begin >= ask.size) begins.push_back(block.begin);
    if (block.state == State::kCached && block.end() - run_begin >= ask.size)
      begins.push_back(block.end() - ask.size);
  }
  const auto key = [&](const Place& place) {
    const uint64_t first_key = by_all_pages ? place.missing + place.cached : place.missing;
    return std::pair(first_key, by_all_pages ? place.missing : place.cached);
  };
  for (const Address begin : begins) {
    const Place place = place_at(range, begin, ask.size);
    if (!*best || key(place) < key(**best)) *best = place;
  }
}

Model::Place Model::place_at(const Range& range, Address begin, uint64_t size) const {
  const uint64_t page = options_.page_size;
  Place place{begin, 0, 0};
  for (const Block& block : range.blocks) {
    if (block.end() <= begin || block.begin >= begin + size) continue;
    // The whole pages of the block that have a byte of the place.
    const Address from = std::max(round_up(block.begin, page), round_down(begin, page));
    const Address to = std::min(round_down(block.end(), page), round_up(begin + size, page));
    const uint64_t pages = to > from ? (to - from) / page : 0;
    (block.state == State::kHole ? place.missing : place.cached) += pages;
  }
  return place;
}

// As large as a segment of expandable segments [exp 1.4], or else as the request. False: the request
// could never be served, or there are no addresses.
bool Model::reserve(const Ask& ask) {
  uint64_t free_bytes = 0;
  uint64_t total = 0;
  driver_.memory_info(0, &free_bytes, &total);
  if (ask.size > std::min(total, limit_)) return false;
  return try_reserve(ask, total + total / 8) || try_reserve(ask, ask.size);
}

bool Model::try_reserve(const Ask& ask, uint64_t bytes) {
  const uint64_t size = round_up(bytes, options_.page_size);
  Address address = 0;
  if (driver_.reserve(0, size, &address) != kSuccess) return false;
  Range range{ask.pool, ask.is_small, ask.stream, address, size, ranges_made_++, {}, {}};
  range.blocks.push_back({address, size, State::kHole});
  ranges_.push_back(range);
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return true;
}

}  // namespace cachalot::policy_model
