// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/pinned_blocks.h"

#include <mutex>
#include <new>
#include <utility>

#include "base/assert.h"

namespace cachalot {

// Chunks are made as they are needed, and stay: a number never names another place.
PinnedBlock* PinnedBlocks::take() {
  const std::lock_guard lock(lock_);
  if (unused_ != nullptr) return std::exchange(unused_, unused_->next);
  const uint32_t number = made_ + 1;
  if (number / kChunk >= kChunks) throw std::bad_alloc();
  if (!chunks_[number / kChunk]) chunks_[number / kChunk] = std::make_unique<Chunk>();
  made_ = number;
  PinnedBlock* const block = at(number);
  block->number = number;
  return block;
}

void PinnedBlocks::put(PinnedBlock* block, Address address) {
  CACHALOT_ASSERT(1, address != 0 && address % kAlignment == 0);
  // Of the whole range only the begin is looked up.
  numbers_.prepare(address, kAlignment, true);
  numbers_.make_room(address);
  block->address.store(address, std::memory_order_release);
  numbers_.set(address, block->number);
}

PinnedBlock* PinnedBlocks::find_in_table(Address address) const {
  const uint32_t number = numbers_.find(address);
  if (number == 0) return nullptr;
  PinnedBlock* const block = at(number);
  if (block->address.load(std::memory_order_acquire) != address) return nullptr;
  hint(address).store(block, std::memory_order_release);
  return block;
}

// The number goes first: whoever finds the object from here on sees the address 0.
void PinnedBlocks::forget(PinnedBlock* block) {
  numbers_.set(block->address, 0);
  block->address.store(0, std::memory_order_release);
}

void PinnedBlocks::give(PinnedBlock* block) {
  CACHALOT_ASSERT(1, block->address == 0 && block->state == PinnedBlock::State::kNone);
  CACHALOT_ASSERT(1, block->uses.empty());
  const std::lock_guard lock(lock_);
  block->next = std::exchange(unused_, block);
}

}  // namespace cachalot
