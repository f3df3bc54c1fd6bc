// SPDX-License-Identifier: MIT OR Apache-2.0
// The lists of blocks [policy P3].
#include <algorithm>
#include <set>

#include "model.h"

namespace cachalot::policy_model {

Model::Range& Model::range_at(Address address) {
  for (Range& range : ranges_)
    if (range.begin <= address && address < range.begin + range.size) return range;
  throw Failure{Status::kInternal};
}

Model::Block& Model::block_at(Address address) {
  for (Block& block : range_at(address).blocks)
    if (block.begin <= address && address < block.end()) return block;
  throw Failure{Status::kInternal};
}

bool Model::is_of(const Range& range, const Ask& ask) const {
  return range.pool == ask.pool && range.is_small == ask.is_small && range.stream == ask.stream;
}

// ---- Pins [policy P11]

void Model::pin(Address address, uint64_t size) {
  const Pin pin{address, size};
  const auto has_all = [&](const Block& block) {
    return block.state == State::kUsed && block.begin <= address && pin.end() <= block.end();
  };
  for (const Range& range : ranges_) {
    if (size == 0 || std::none_of(range.blocks.begin(), range.blocks.end(), has_all)) continue;
    pins_.push_back(pin);
    return count_pinned();
  }
  throw Failure{Status::kInvalidArgument};
}

void Model::unpin(Address address, uint64_t size) {
  const auto found = std::find_if(pins_.begin(), pins_.end(), [&](const Pin& pin) {
    return pin.begin == address && pin.size == size;
  });
  if (found == pins_.end()) throw Failure{Status::kInvalidArgument};
  pins_.erase(found);
  count_pinned();
}

void Model::count_pinned() {
  std::set<Address> pages;
  for (const Pin& pin : pins_)
    for (Address page = round_down(pin.begin, options_.page_size); page < pin.end();
         page += options_.page_size)
      pages.insert(page);
  numbers_.policy.pinned_bytes = pages.size() * options_.page_size;
}

bool Model::is_pinned(Address page) const {
  return std::any_of(pins_.begin(), pins_.end(), [&](const Pin& pin) {
    return pin.begin < page + options_.page_size && page < pin.end();
  });
}

std::vector<std::pair<Address, Address>> Model::unpinned(Address begin, Address end) const {
  std::vector<std::pair<Address, Address>> runs;
  for (Address page = begin; page < end; page += options_.page_size) {
    if (is_pinned(page) && !is(Fault::kMovesPinned)) continue;
    if (runs.empty() || runs.back().second != page) runs.emplace_back(page, page);
    runs.back().second += options_.page_size;
  }
  return runs;
}

// ---- Blocks

// Whether the block has stamps of other streams than the range's.
bool Model::is_foreign(const Range& range, const Block& block) {
  return std::any_of(block.stamps.begin(), block.stamps.end(),
                     [&](const auto& stamp) { return stamp.first != range.stream; });
}

// Divides the block that has this address, unless it begins there. Both parts have the stamps.
void Model::cut(Range& range, Address address) {
  for (size_t i = 0; i < range.blocks.size(); i++) {
    Block& front = range.blocks[i];
    if (front.begin >= address || address >= front.end()) continue;
    Block back = front;
    back.size = front.end() - address;
    back.begin = address;
    front.size = address - front.begin;
    range.blocks.insert(range.blocks.begin() + static_cast<std::ptrdiff_t>(i) + 1, back);
    return;
  }
}

// Joins the neighbours of one state in the range; a merge keeps the later stamp of each stream.
void Model::merge(Range& range) const {
  auto& blocks = range.blocks;
  for (size_t i = 1; i < blocks.size();) {
    Block& before = blocks[i - 1];
    if (!before.is_free() || before.state != blocks[i].state) {
      i++;
      continue;
    }
    before.size += blocks[i].size;
    for (const auto& [stream, stamp] : blocks[i].stamps) {
      uint64_t& kept = before.stamps.try_emplace(stream, stamp).first->second;
      kept = is(Fault::kEarlierStamp) ? std::min(kept, stamp) : std::max(kept, stamp);
    }
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace cachalot::policy_model
