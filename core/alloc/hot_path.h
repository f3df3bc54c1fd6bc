// SPDX-License-Identifier: MIT OR Apache-2.0
// The hit: what a request or a free is while no duty is set. The same decisions as in
// device_allocator.cpp, with all that can not apply left out; the golden files are compared on both
// roads.
#pragma once

#include <utility>

#include "alloc/block_steps.h"

namespace cachalot {

// See Note [Kept free].
[[gnu::noinline]] inline void DeviceAllocator::settle() {
  Block* const block = std::exchange(last_.handed_out, nullptr);
  if (const int64_t rounds = std::exchange(last_.rounds, 0)) count_rounds(block, rounds);
  if (std::exchange(last_.kept, false)) put_back(block);
}

// What each hand-out moved follows from the neighbours, which have not changed since.
inline void DeviceAllocator::count_rounds(Block* block, int64_t rounds) {
  Block* const next = block->next;
  Counters::HandOut change{static_cast<int64_t>(block->size),
                           static_cast<int64_t>(block->requested), 0, 0};
  if (next->is_free()) {
    const bool was_whole = next->next == block->prev;
    change.split_count = was_whole ? 1 : 0;
    change.split_bytes = was_whole ? static_cast<int64_t>(next->size) : -change.bytes;
    // The object of the freed block became the remainder each time, and shows what was asked of it.
    next->requested = block->requested;
  } else if (block->is_split()) {
    change.split_count = -1;
    change.split_bytes = -change.bytes;
  }
  counters_.add_rounds(shelf_of(block).is_small, change, rounds);
}

// pre: a plain block that is no longer used.
[[gnu::always_inline]] inline void DeviceAllocator::put_back(Block* block) {
  Shelf& shelf = shelf_of(block);
  Counters::HandOut change{static_cast<int64_t>(block->size),
                           static_cast<int64_t>(block->requested), 0, 0};
  merge_free_block(block, &change);
  shelf.free.insert(block);
  counters_.give_back_and_complete(shelf.is_small, change);
}

// 0: not a hit, or more than a hit; nothing has changed. pre: requested is not 0.
[[gnu::always_inline]] inline Address DeviceAllocator::try_allocate(uint64_t requested,
                                                                    Stream stream) {
  if (context_level_.load(std::memory_order_relaxed) != ContextLevel::kNever) [[unlikely]]
    return 0;
  lock_.lock();
  const Address address = duties_ == 0 ? allocate_usual(requested, stream) : 0;
  lock_.unlock();
  return address;
}

// False: not a live block, or more than a usual free; nothing has changed.
[[gnu::always_inline]] inline bool DeviceAllocator::try_free(Block* block, Address address) {
  lock_.lock();
  // Expandable blocks, recorded uses and memory that was idle have flags of their own, so one
  // comparison tells it all.
  const bool is_usual = duties_ == 0 && block->address == address && block->flags() == Block::kUsed;
  if (is_usual) [[likely]]
    free_usual(block);
  lock_.unlock();
  return is_usual;
}

// 0: a miss. pre: requested is not 0.
[[gnu::always_inline]] inline Address DeviceAllocator::allocate_usual(uint64_t requested,
                                                                      Stream stream) {
  const uint64_t size = round_up(requested, kMinBlockSize);
  BlockPool& pool = default_pools_[size <= kSmallSize];
  Shelf* shelf = pool.find(stream);
  if (!shelf || !spare_blocks_) [[unlikely]]
    return 0;
  Block* const last = last_.handed_out;
  if (last_.kept && last->requested == requested && last->segment()->shelf == shelf) {
    last_.kept = false;
    last_.rounds++;
    last->set(Block::kUsed);
    return last->address;
  }
  if (!last_.is_settled()) [[unlikely]]
    settle();
  Block* block = shelf->free.first_at_least(size);
  if (!block || block->is(Block::kExpandable)) [[unlikely]]
    return 0;
  shelf->free.remove(block);
  const bool is_small = shelf->is_small;
  const bool was_split = block->is_split();
  const uint64_t remaining = block->size - size;
  Counters::HandOut change{0, static_cast<int64_t>(requested), 0, 0};
  if (remaining > (is_small ? kMinBlockSize - 1 : kSmallSize)) {
    Block* remainder = block;
    block = split_front(block, size);
    shelf->free.insert(remainder);
    change.split_count = was_split ? 0 : 1;
    change.split_bytes = was_split ? -static_cast<int64_t>(size) : static_cast<int64_t>(remaining);
  } else if (was_split) {
    change.split_count = -1;
    change.split_bytes = -static_cast<int64_t>(block->size);
  }
  last_.handed_out = block;
  block->set(Block::kUsed);
  block->requested = requested;
  shared_.addresses.set(block->address, BlockArena::number_of(block));
  change.bytes = static_cast<int64_t>(block->size);
  counters_.hand_out(is_small, change);
  return block->address;
}

// pre: no duty is set; a plain block that is used, and by no other stream.
[[gnu::always_inline]] inline void DeviceAllocator::free_usual(Block* block) {
  if (block == last_.handed_out) {
    block->clear(Block::kUsed);
    last_.kept = true;
    return;
  }
  // While this block is used, so that no neighbour takes it in.
  if (!last_.is_settled()) [[unlikely]]
    settle();
  last_.handed_out = nullptr;
  block->clear(Block::kUsed);
  put_back(block);
}

}  // namespace cachalot
