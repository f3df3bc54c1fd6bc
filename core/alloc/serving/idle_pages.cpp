// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/serving/idle_pages.h"

#include <algorithm>
#include <tuple>

#include "base/units.h"

namespace cachalot {

// Equally idle ones come in the order of streams, small before large, then by address.
IdlePages::IdlePages(DeviceState& device, const StreamOrder& order, uint64_t page_size,
                     const Place& place)
    : pins_(device.heap.pins()), order_(order) {
  const Segment& range = *place.before->next->segment();
  const Address keep_begin = range.address + round_down(place.begin - range.address, page_size);
  const Address keep_end = range.address + round_up(place.end() - range.address, page_size);
  for (const bool is_small : {true, false}) {
    for (auto& [stream, list] : device.heap.default_pool(is_small).lists) {
      for (Block* b = list.free.first_at_least(page_size); b; b = list.free.next(b))
        look_at(b, keep_begin, keep_end);
    }
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const IdleRange& a, const IdleRange& b) {
    const auto key = [](const IdleRange& of_block) {
      const Segment& of = *of_block.block->segment();
      return std::tuple(of_block.stamp, of.stream, !of.pool->is_small, of_block.begin);
    };
    return key(a) < key(b);
  });
}

// The place may touch the front or the back of a cached block.
void IdlePages::look_at(Block* block, Address keep_begin, Address keep_end) {
  const auto [begin, end] = block->segment()->pages->whole_pages(block->address, block->size);
  add(block, begin, std::min(end, keep_begin));
  add(block, std::max(begin, keep_end), end);
}

void IdlePages::add(Block* block, Address begin, Address end) {
  if (begin >= end) return;
  pins_.for_each_unpinned(begin, end, [&](Address from, Address to) {
    ranges_.push_back({block, from, to, order_.latest_stamp(block)});
    bytes_ += to - from;
  });
}

std::vector<IdleRange> IdlePages::longest_idle(uint64_t bytes) const {
  std::vector<IdleRange> chosen;
  for (IdleRange range : ranges_) {
    if (bytes == 0) break;
    if (range.size() > bytes) {
      const bool begins_at_hole =
          range.begin == range.block->address && range.block->prev->is(Block::kUnmapped);
      if (begins_at_hole) {
        range.end = range.begin + bytes;
      } else {
        range.begin = range.end - bytes;
      }
    }
    bytes -= range.size();
    chosen.push_back(range);
  }
  return chosen;
}

}  // namespace cachalot
