// SPDX-License-Identifier: MIT OR Apache-2.0
// Which pages fill a place, and how they get there [policy P8, P9].
#include <algorithm>
#include <tuple>

#include "model.h"

namespace cachalot::policy_model {

// False: pages do not suffice, and nothing has moved. Pages that got no place go back to the driver.
bool Model::fill(const Place& place, const Ask& ask, Pages from) {
  Loose loose;
  bool is_filled = false;
  try {
    is_filled = collect_pages(place, ask, from, &loose);
    if (is_filled) map(place, ask.size, &loose);
  } catch (const Failure&) {
    for (const uint64_t handle : loose.handles) release(handle);
    throw;
  }
  for (const uint64_t handle : loose.handles) release(handle);
  return is_filled;
}

// New ones below the soft limit, then idle ones, then new ones.
bool Model::collect_pages(const Place& place, const Ask& ask, Pages from, Loose* loose) {
  std::vector<uint64_t>* const handles = &loose->handles;
  const uint64_t missing = place.missing;
  const uint64_t limit =
      is(Fault::kPageBeyondLimit) && limit_ != kUnlimited ? limit_ + options_.page_size : limit_;
  const uint64_t within_limit = std::min(missing, pages_below(limit));
  if (from == Pages::kNew || may_be_capturing()) {  // no stream could wait for another
    if (within_limit == missing) create_pages(missing, handles);
    return handles->size() == missing;
  }
  const bool is_within = missing <= std::min(within_limit, pages_below(soft_limit_));
  if (is_within) create_pages(missing, handles);
  if (handles->size() == missing) return true;
  const std::vector<Idle> idle = idle_pages(place, ask.size);
  const uint64_t all_idle = count_of(idle);
  if (within_limit + all_idle < missing) return false;
  const bool can_tell = all_idle > 0 && look_at_progress();
  if (is_within) {
    if (handles->size() + all_idle < missing) return false;
    raise_soft_limit(reserved_ + (missing - all_idle) * options_.page_size, 0);
  } else if (!collect_beyond_soft_limit(all_idle, can_tell, missing, within_limit, handles)) {
    return false;
  }
  take(longest_idle(idle, missing - handles->size()), place.begin, can_tell, loose);
  return true;
}

// Adds the new ones. False: the idle ones do not suffice for the rest.
bool Model::collect_beyond_soft_limit(uint64_t all_idle, bool can_tell, uint64_t missing,
                                      uint64_t within_limit, std::vector<uint64_t>* handles) {
  const bool thrift = options_.thrift && !is(Fault::kNoThrift);
  const uint64_t ready = can_tell || thrift || is(Fault::kWaitsBelowLimit) ? all_idle : 0;
  const uint64_t in_use = reserved_ + (missing - all_idle) * options_.page_size;
  const uint64_t soft_limit = std::max(soft_limit_, thrift ? 0 : in_use + in_use / 16);
  const uint64_t below = is(Fault::kNoSoftLimit) && !thrift ? missing : pages_below(soft_limit);
  const uint64_t wanted = std::max(std::min(missing, below), missing - std::min(missing, ready));
  create_pages(std::min(within_limit, wanted), handles);
  if (handles->size() + all_idle < missing) return false;
  const bool is_free_to_grow = within_limit == missing && handles->size() == wanted;
  raise_soft_limit(in_use, is_free_to_grow ? (missing - wanted) * options_.page_size : 0);
  return true;
}

void Model::raise_soft_limit(uint64_t in_use, uint64_t moved) {
  if (options_.thrift && !is(Fault::kNoThrift)) return;
  soft_limit_ = std::max(soft_limit_, in_use + in_use / 16) + moved / 64;
}

uint64_t Model::count_of(const std::vector<Idle>& idle) const {
  uint64_t bytes = 0;
  for (const Idle& pages : idle) bytes += pages.end - pages.begin;
  return bytes / options_.page_size;
}

uint64_t Model::pages_below(uint64_t bytes) const {
  return bytes <= reserved_ ? 0 : (bytes - reserved_) / options_.page_size;
}

// So many, or as many as the driver has.
void Model::create_pages(uint64_t count, std::vector<uint64_t>* handles) {
  for (uint64_t made = 0; made < count; made++) {
    uint64_t handle = 0;
    const DriverCode code =
        driver_.create(0, options_.page_size, HandleType::kPosixFd, true, &handle);
    if (code == kDriverOutOfMemory) return;
    require(code);
    numbers_.policy.pages_created++;
    handles->push_back(handle);
  }
}

// Whether a hole lies before these pages of a block.
bool Model::is_behind_hole(const Range& range, size_t block, Address begin) {
  return begin == range.blocks[block].begin && block > 0 &&
         (range.blocks[block - 1].state == State::kHole ||
          range.blocks[block - 1].state == State::kWaitingHole);
}

// Those of cached blocks of the default pools, the longest idle first.
std::vector<Model::Idle> Model::idle_pages(const Place& place, uint64_t size) const {
  const uint64_t page = options_.page_size;
  const Address keep_begin = round_down(place.begin, page);
  const Address keep_end = round_up(place.begin + size, page);
  std::vector<Idle> found;
  for (const Range& range : ranges_) {
    if (!range.pool.is_default()) continue;
    for (size_t i = 0; i < range.blocks.size(); i++) {
      const Block& block = range.blocks[i];
      if (block.state != State::kCached) continue;
      uint64_t latest = 0;
      for (const auto& [stream, stamp] : block.stamps) latest = std::max(latest, stamp);
      const Address begin = round_up(block.begin, page);
      const Address end = round_down(block.end(), page);
      const auto add = [&](Address from, Address to) {
        for (const auto& [first, last] : unpinned(from, to))
          found.push_back(
              {first, last, latest, range.stream, range.is_small, is_behind_hole(range, i, first)});
      };
      add(begin, std::min(end, keep_begin));
      add(std::max(begin, keep_end), end);
    }
  }
  if (is(Fault::kLatestFirst))
    for (Idle& idle : found) idle.stamp = kUnlimited - idle.stamp;
  std::sort(found.begin(), found.end(), [](const Idle& a, const Idle& b) {
    return std::tuple(a.stamp, a.stream, !a.is_small, a.begin) <
           std::tuple(b.stamp, b.stream, !b.is_small, b.begin);
  });
  return found;
}

// So many pages, of the last block those at a hole, else the last ones.
std::vector<Model::Idle> Model::longest_idle(const std::vector<Idle>& idle, uint64_t count) const {
  std::vector<Idle> chosen;
  uint64_t bytes = count * options_.page_size;
  for (Idle pages : idle) {
    if (bytes == 0) break;
    if (pages.end - pages.begin > bytes)
      (pages.is_behind_hole && !is(Fault::kAlwaysFromTheBack) ? pages.end = pages.begin + bytes
                                                              : pages.begin = pages.end - bytes);
    bytes -= pages.end - pages.begin;
    chosen.push_back(pages);
  }
  return chosen;
}

// Where the driver cannot tell what is done, the host waits. What the device is done with becomes a hole at
// once.
void Model::take(const std::vector<Idle>& idle, Address place, bool can_tell, Loose* loose) {
  for (const Idle& pages : idle)
    if (!can_tell || is_finished(block_at(pages.begin))) wait_on_host(pages.begin);
  for (const Idle& pages : idle) {
    const Block& block = block_at(pages.begin);
    const bool is_done = is_finished(block) || !can_tell;
    if (!is_done && !is(Fault::kStampsStayBehind))
      for (const auto& [stream, stamp] : block.stamps)
        loose->stamps[stream] = std::max(loose->stamps[stream], stamp);
    for (Address at = pages.begin; at < pages.end; at += options_.page_size) {
      loose->handles.push_back(take_handle(at));
      numbers_.policy.pages_moved++;
    }
    make_hole(pages.begin, pages.end, State::kWaitingHole);
    waiting_holes_.push_back({pages.begin, pages.end, is_done ? 0 : pages.stamp});
  }
  end_waiting_holes(0, range_at(place).begin);
}

// Those with this stamp or an earlier one. A range of a stream that has ended goes with its last page, but
// for one.
void Model::end_waiting_holes(uint64_t stamp, std::optional<Address> keep) {
  for (const WaitingHole& hole : waiting_holes_) {
    if (hole.stamp > stamp) continue;
    for (Address at = hole.begin; at < hole.end; at += options_.page_size)
      driver_.unmap(0, at, options_.page_size);
    block_at(hole.begin).state = State::kHole;
    Range& range = range_at(hole.begin);
    merge(range);
    if (range.has_stream_ended && range.begin != keep && !is(Fault::kKeptRanges))
      give_back_range(range.begin);
  }
  std::erase_if(waiting_holes_, [&](const WaitingHole& hole) { return hole.stamp <= stamp; });
}

// Unless it is anything but a hole.
void Model::give_back_range(Address begin) {
  const Range& range = range_at(begin);
  if (range.blocks.size() != 1 || range.blocks.front().state != State::kHole) return;
  driver_.unreserve(0, range.begin, range.size);
  std::erase_if(ranges_, [&](const Range& other) { return other.begin == begin; });
}

// By address.
void Model::give_back_empty_ranges(const std::function<bool(const Range&)>& matches) {
  if (is(Fault::kKeptRanges)) return;
  std::vector<Address> begins;
  for (const Range& range : ranges_)
    if (matches(range)) begins.push_back(range.begin);
  for (const Address begin : begins) give_back_range(begin);
}

void Model::release(uint64_t handle) {
  driver_.release(0, handle);
  numbers_.policy.pages_released++;
}

// Unmaps a page, and gives its handle.
uint64_t Model::take_page(Address address) {
  driver_.unmap(0, address, options_.page_size);
  return take_handle(address);
}

uint64_t Model::take_handle(Address address) {
  auto& pages = range_at(address).pages;
  const auto page =
      std::find_if(pages.begin(), pages.end(), [&](const Page& p) { return p.address == address; });
  const uint64_t handle = page->handle;
  pages.erase(page);
  return handle;
}

// The part of a cached block whose pages are gone.
void Model::make_hole(Address begin, Address end, State state) {
  Range& range = range_at(begin);
  cut(range, begin);
  cut(range, end);
  Block& hole = block_at(begin);
  hole.state = state;
  hole.stamps.clear();
  count_reserved(range, -static_cast<int64_t>(end - begin));
  merge(range);
}

// Fills each hole under the place, and sets access to it once.
void Model::map(const Place& place, uint64_t size, Loose* loose) {
  const uint64_t page = options_.page_size;
  const Address begin = round_down(place.begin, page);
  const Address end = round_up(place.begin + size, page);
  for (Address at = begin; at < end;) {
    const Block hole = block_at(at);
    const Address to = std::min(end, hole.end());
    if (hole.state == State::kHole) map_hole(at, to, loose);
    at = round_up(to, page);
  }
}

// Where the driver refuses, the hole stays as it was.
void Model::map_hole(Address begin, Address end, Loose* loose) {
  const uint64_t page = options_.page_size;
  std::vector<uint64_t>& handles = loose->handles;
  const size_t first = handles.size() - (end - begin) / page;
  Address mapped_end = begin;
  DriverCode code = kSuccess;
  for (size_t i = first; i < handles.size() && code == kSuccess; i++) {
    code = driver_.map(0, mapped_end, page, handles[i]);
    if (code == kSuccess) mapped_end += page;
  }
  if (code == kSuccess) code = driver_.set_access(0, begin, end - begin, 0);
  if (code != kSuccess)
    for (Address at = begin; at < mapped_end; at += page) driver_.unmap(0, at, page);
  require(code);
  Range& range = range_at(begin);
  for (Address at = begin; at < end; at += page)
    range.pages.push_back({at, handles[first + (at - begin) / page]});
  handles.resize(first);
  cut(range, begin);
  cut(range, end);
  block_at(begin).state = State::kCached;
  block_at(begin).stamps = loose->stamps;
  count_reserved(range, static_cast<int64_t>(end - begin));
  merge(range);
}

}  // namespace cachalot::policy_model
