// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/live_blocks.h"

#include <utility>

#include "base/assert.h"

namespace cachalot {

// Where the system lays memory differs from run to run.
LiveBlocks::LiveBlocks()
    : places_(1024),
      mask_(places_.size() - 1),
      salt_(reinterpret_cast<uintptr_t>(places_.data()) * 0xbf58476d1ce4e5b9u) {}

LiveBlock* LiveBlocks::find(Address address, uint8_t device) {
  for (size_t i = home_of(address);; i = (i + 1) & mask_) {
    LiveBlock& block = places_[i];
    if (block.address == 0) return nullptr;
    if (block.address == address && block.device == device) return &block;
  }
}

void LiveBlocks::insert(const LiveBlock& block) {
  CACHALOT_ASSERT(1, block.address != 0);
  CACHALOT_ASSERT(2, find(block.address, block.device) == nullptr);
  if (++count_ > places_.size() / 2) grow();
  *first_empty_place(block.address) = block;
}

// Moves later entries of the run back, so that no search meets a hole before what it looks for.
void LiveBlocks::erase(LiveBlock* block) {
  CACHALOT_ASSERT(1, block >= places_.data() && block < places_.data() + places_.size());
  CACHALOT_ASSERT(1, block->address != 0 && count_ > 0);
  count_--;
  auto hole = static_cast<size_t>(block - places_.data());
  for (size_t i = (hole + 1) & mask_; places_[i].address != 0; i = (i + 1) & mask_) {
    const size_t home = home_of(places_[i].address);
    if (((i - home) & mask_) < ((i - hole) & mask_)) continue;
    places_[hole] = places_[i];
    hole = i;
  }
  places_[hole] = {};
}

// The middle bits of a product: those of the whole address take part in them.
size_t LiveBlocks::home_of(Address address) const {
  uint64_t mixed = address ^ salt_;
  mixed ^= mixed >> 32;
  return static_cast<size_t>((mixed * 0x9e3779b97f4a7c15u) >> 32) & mask_;
}

LiveBlock* LiveBlocks::first_empty_place(Address address) {
  CACHALOT_ASSERT(1, count_ <= places_.size() / 2);  // so the search ends
  size_t i = home_of(address);
  while (places_[i].address != 0) i = (i + 1) & mask_;
  return &places_[i];
}

void LiveBlocks::grow() {
  const std::vector<LiveBlock> old =
      std::exchange(places_, std::vector<LiveBlock>(places_.size() * 2));
  mask_ = places_.size() - 1;
  for (const LiveBlock& block : old)
    if (block.address != 0) *first_empty_place(block.address) = block;
}

}  // namespace cachalot
