// SPDX-License-Identifier: MIT OR Apache-2.0
// The hit: what a request or a free is while no duty is set. The same decisions as in
// device_allocator.cpp, with all that can not apply left out; the golden files are compared on both
// roads. Decide, count, apply: nothing has changed where the counters refuse.
#pragma once

#include <utility>

#include "alloc/block_steps.h"

namespace cachalot {

// See Note [Kept free].
[[gnu::noinline]] inline void DeviceAllocator::settle(Shard& shard) {
  Block* const block = std::exchange(shard.last.handed_out, nullptr);
  if (const int64_t rounds = std::exchange(shard.last.rounds, 0))
    count_rounds(shard, block, rounds);
  // Never refused: the shard has counted the state that this brings back, and kept its limits.
  if (std::exchange(shard.last.kept, false)) put_back(shard, block, false);
}

// What each hand-out moved follows from the neighbours, which have not changed since.
inline void DeviceAllocator::count_rounds(Shard& shard, Block* block, int64_t rounds) {
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
  shard.account.counters.add_rounds(shelf_of(block).is_small, change, rounds);
}

// False: refused by the counters. pre: a plain block that the caller freed.
[[gnu::always_inline]] inline bool DeviceAllocator::put_back(Shard& shard, Block* block,
                                                             bool shares_account) {
  Shelf& shelf = shelf_of(block);
  const Neighbours free = free_neighbours(block);
  const Counters::HandOut change = change_by_free(block, free);
  Account& account = shard.account;
  const bool is_counted = shares_account
                              ? peaks_.give_back_and_complete(account, shelf.is_small, change)
                              : account.counters.give_back_and_complete(shelf.is_small, change);
  if (!is_counted) [[unlikely]]
    return false;
  block->clear(Block::kUsed);
  merge_with(shard, block, free);
  shelf.free.insert(block);
  return true;
}

// 0: not a hit, or more than a hit; nothing has changed. pre: requested is not 0.
[[gnu::always_inline]] inline Address DeviceAllocator::try_allocate(uint64_t requested,
                                                                    Stream stream) {
  StreamEntry* const entry = streams_.find(stream);
  if (!entry || !duties_.none()) [[unlikely]]
    return 0;
  Shard* const shard = entry->shard;
  shard->lock.lock();
  Address address = 0;
  if (duties_.none()) [[likely]] {
    address = shard->account.is_shared ? allocate_sharing(*entry, requested, stream)
                                       : allocate_usual(*entry, requested, stream, false);
  }
  shard->lock.unlock();
  return address;
}

// False: not a live block, or more than a usual free; nothing has changed.
[[gnu::always_inline]] inline bool DeviceAllocator::try_free(Shard& shard, Block* block,
                                                             Address address) {
  shard.lock.lock();
  // Expandable blocks, recorded uses and memory that was idle have flags of their own, so one
  // comparison tells it all.
  const bool is_usual =
      duties_.none() && block->address == address && block->flags() == Block::kUsed;
  const bool is_freed = is_usual && free_usual(shard, block);
  shard.lock.unlock();
  return is_freed;
}

// Out of line, so that the usual case has no call that its registers must survive.
[[gnu::noinline]] inline Address DeviceAllocator::allocate_sharing(StreamEntry& entry,
                                                                   uint64_t requested,
                                                                   Stream stream) {
  return allocate_usual(entry, requested, stream, true);
}
[[gnu::noinline]] inline bool DeviceAllocator::put_back_sharing(Shard& shard, Block* block) {
  return put_back(shard, block, true);
}

// 0: a miss. pre: requested is not 0.
[[gnu::always_inline]] inline Address DeviceAllocator::allocate_usual(StreamEntry& entry,
                                                                      uint64_t requested,
                                                                      Stream stream,
                                                                      bool shares_account) {
  Shard& shard = *entry.shard;
  const uint64_t size = round_up(requested, kMinBlockSize);
  const bool is_small = size <= kSmallSize;
  Shelf* const shelf = entry.default_shelves[is_small];
  const bool is_of_stream = entry.stream.load(std::memory_order_relaxed) == stream;
  if (!shelf || !shard.spare_blocks || !is_of_stream) [[unlikely]]
    return 0;
  KeptFree& kept = shard.last;
  Block* const last = kept.handed_out;
  if (kept.kept && last->requested == requested && last->segment()->shelf == shelf) {
    kept.kept = false;
    kept.rounds++;
    last->set(Block::kUsed);
    return last->address;
  }
  if (!kept.is_settled()) [[unlikely]]
    settle(shard);
  Block* block = shelf->free.first_at_least(size);
  if (!block || block->is(Block::kExpandable)) [[unlikely]]
    return 0;
  const AddressTable::Place place = shared_.addresses.place(block->address);
  if (!place.has_room()) [[unlikely]]
    return 0;
  const bool was_split = block->is_split();
  const uint64_t remaining = block->size - size;
  const bool splits = remaining > (is_small ? kMinBlockSize - 1 : kSmallSize);
  const auto taken = static_cast<int64_t>(splits ? size : block->size);
  const Counters::HandOut change{taken, static_cast<int64_t>(requested),
                                 int64_t{splits} - int64_t{was_split},
                                 was_split ? -taken : static_cast<int64_t>(splits ? remaining : 0)};
  const bool is_counted = shares_account ? peaks_.hand_out(shard.account, is_small, change)
                                         : shard.account.counters.hand_out(is_small, change);
  if (!is_counted) [[unlikely]]
    return 0;
  shelf->free.remove(block);
  if (splits) {
    Block* const remainder = block;
    block = split_front(shard, block, size);
    shelf->free.insert(remainder);
  }
  kept.handed_out = shares_account ? nullptr : block;
  block->set(Block::kUsed);
  block->requested = requested;
  AddressTable::set(place, block->address, BlockArena::number_of(block));
  return block->address;
}

// False: refused by the counters. pre: no duty is set; a plain block that is used, and by no other
// stream.
[[gnu::always_inline]] inline bool DeviceAllocator::free_usual(Shard& shard, Block* block) {
  if (shard.account.is_shared) return put_back_sharing(shard, block);
  if (block == shard.last.handed_out) {
    block->clear(Block::kUsed);
    shard.last.kept = true;
    return true;
  }
  // While this block is used, so that no neighbour takes it in.
  if (!shard.last.is_settled()) [[unlikely]]
    settle(shard);
  shard.last.handed_out = nullptr;
  return put_back(shard, block, false);
}

}  // namespace cachalot
