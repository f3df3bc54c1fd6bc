// SPDX-License-Identifier: MIT OR Apache-2.0
// The hit: what a request or a free is while no flag of the slow path is set. The same decisions as in
// device_allocator.cpp, with all that cannot apply left out; the golden files are compared on both
// paths. Decide, count, apply: nothing has changed where the counters refuse.
//
// Note [Registers of a hit]
// Rationale: a hit has more values at hand than a processor has registers. Each that has to be kept
// aside costs two instructions, and an object on the stack costs seven more where a compiler protects
// stacks (CACHALOT_HARDENING), because it then checks the frame of each call.
// Approach: a hit is inline from the C function on. What the general path alone needs of the arguments
// waits on the stack (volatile), instead of in registers. Everything that is rare, or takes the address
// of an object, has a function of its own that is not inlined and gets its arguments in registers.
#pragma once

#include <utility>

#include "alloc/native/block_steps.h"
#include "alloc/native/hit_path.h"

namespace cachalot {

// See Note [Last free].
[[gnu::noinline]] inline void DeviceAllocator::flush(Shard& shard) {
  const LastFreeCache last = std::exchange(shard.last, {});
  if (last.rounds() != 0) count_rounds(shard, last.handed_out, last.rounds());
  // Never refused: the shard has counted the state that this brings back, and kept its limits.
  if (last.is_kept()) put_back<CountedBy::kShard>(shard, last.handed_out);
}

// What each hand-out moved follows from the neighbours, which have not changed since.
inline void DeviceAllocator::count_rounds(Shard& shard, Block* block, int64_t rounds) {
  const Neighbours free = free_neighbours(block);
  Counters::Change change = change_of_free(block, free);
  // The object of the freed block became the remainder each time, and shows what was asked of it.
  if (free.after) block->next->requested = block->requested;
  shard.account.counters.add_rounds(list_of(block).is_small, change, rounds);
}

// ---- Counting. False (here and below): refused by the counters. kind: a row of theirs.

[[gnu::always_inline]] inline bool count_hand_out(Counters& counters, Counters::Row& kind,
                                                  const Block* block, uint64_t size,
                                                  uint64_t requested, bool splits) {
  if (!block->is_split() || block->is(Block::kExpandable)) [[unlikely]]
    return count_hand_out_of_other(counters, kind, block, size, requested);
  return counters.hand_out_piece(kind, static_cast<int64_t>(size), static_cast<int64_t>(requested),
                                 splits);
}

[[gnu::always_inline]] inline bool count_free(Counters& counters, Counters::Row& kind,
                                              const Block* block, Neighbours free) {
  const bool is_whole = before_merged(block, free) == after_merged(block, free);
  if (is_whole || block->is(Block::kExpandable)) [[unlikely]] {
    count_free_of_other(counters, kind, block, free);
    return true;
  }
  return counters.free_piece(kind, static_cast<int64_t>(block->size),
                             static_cast<int64_t>(block->requested), free.count());
}

// count(counters, row of the kind): whether the counters agree.
template <DeviceAllocator::CountedBy counted_by, class Count>
[[gnu::always_inline]] inline bool DeviceAllocator::count_hit(Shard& shard, StreamFreeList& list,
                                                              Count count) {
  switch (counted_by) {
    case CountedBy::kShard:
      return count(shard.account.counters, *list.counters);
    case CountedBy::kSharedAccount:
      return peaks_.count_shared(shard.account, list.is_small, count);
    case CountedBy::kDevice:
      return peaks_.count_of_whole(shard.account, list.is_small, count);
  }
}

// ---- Freeing

// Whether a call frees a live block that no other stream uses. Recorded uses and memory that was idle
// have flags of their own, so one comparison tells it all.
[[gnu::always_inline]] inline bool is_usual_free(const Block* block, Address address) {
  return block->address == address &&
         (block->flags() & ~uint64_t{Block::kExpandable}) == Block::kUsed;
}

// pre (here and below): a mapped block that the caller freed, of a size that is not oversize.
template <DeviceAllocator::CountedBy counted_by>
[[gnu::always_inline]] inline bool DeviceAllocator::put_back(Shard& shard, Block* block) {
  StreamFreeList& list = list_of(block);
  Block* const previous = block->prev;
  Block* const next = block->next;
  const Neighbours free{previous->is_mapped_and_free(), next->is_mapped_and_free()};
  const bool is_counted =
      count_hit<counted_by>(shard, list, [&](Counters& counters, Counters::Row& kind) {
        return count_free(counters, kind, block, free);
      });
  if (!is_counted) [[unlikely]]
    return false;
  block->clear(Block::kUsed);
  if (free.before) {
    list.free.remove(previous);
    heap_.absorb_previous(shard.supply, block);
  }
  if (free.after) {
    list.free.remove(next);
    heap_.absorb_next(shard.supply, block);
  }
  list.free.insert(block);
  return true;
}

// The same, unless the block is kept: see Note [Last free].
template <DeviceAllocator::CountedBy counted_by>
[[gnu::always_inline]] inline bool DeviceAllocator::keep_or_put_back(Shard& shard, Block* block) {
  LastFreeCache& kept = shard.last;
  if (block == kept.handed_out) {
    block->clear(Block::kUsed);
    kept.keep();
    return true;
  }
  // While this block is used, so that no neighbour takes it in.
  if (!kept.is_empty()) [[unlikely]]
    flush(shard);
  kept.handed_out = nullptr;
  return put_back<counted_by>(shard, block);
}

[[gnu::always_inline]] inline Address address_or_0(const Block* block) {
  return block ? block->address : 0;
}

// 0: not a hit, or more than a hit; nothing has changed. pre: requested is not 0.
[[gnu::always_inline]] inline Address DeviceAllocator::try_allocate(uint64_t requested,
                                                                    Stream stream) {
  StreamEntry* const entry = streams_.find(stream);
  if (!entry) [[unlikely]]
    return 0;
  // Before the shard's lock too: an attributed hit does not need it.
  if (!flags_.none()) [[unlikely]]
    return allocate_attributed(*entry, requested, stream);
  Shard* const shard = entry->shard;
  shard->lock.lock();
  Address address = 0;
  if (flags_.none()) [[likely]] {
    address = shard->account.is_shared
                  ? allocate_sharing(*entry, requested, stream)
                  : address_or_0(allocate_usual<CountedBy::kShard>(*entry, requested, stream,
                                                                   [](uint64_t) { return true; }));
  }
  shard->lock.unlock();
  return address;
}

// False: not a live block, or more than a usual free; nothing has changed.
[[gnu::always_inline]] inline bool DeviceAllocator::try_free(Shard& shard, Block* block,
                                                             Address address) {
  if (!flags_.none()) [[unlikely]]
    return free_attributed(shard, block, address);
  shard.lock.lock();
  const bool is_freed = flags_.none() && is_usual_free(block, address) && free_usual(shard, block);
  shard.lock.unlock();
  return is_freed;
}

// The shard uses the shared account, and keeps no free.
[[gnu::noinline]] inline Address DeviceAllocator::allocate_sharing(StreamEntry& entry,
                                                                   uint64_t requested,
                                                                   Stream stream) {
  return address_or_0(allocate_usual<CountedBy::kSharedAccount>(entry, requested, stream,
                                                                [](uint64_t) { return true; }));
}
[[gnu::noinline]] inline bool DeviceAllocator::free_sharing(Shard& shard, Block* block) {
  return put_back<CountedBy::kSharedAccount>(shard, block);
}

// See Note [Last free].
template <DeviceAllocator::CountedBy counted_by>
[[gnu::always_inline]] inline bool DeviceAllocator::keeps_last_free(const Shard& shard) {
  return counted_by == CountedBy::kShard ||
         (counted_by == CountedBy::kDevice && shard.account.counters.is_alone());
}

// Null: a miss, or not admitted. admit(bytes of the block): the last question before the counters.
// pre: requested is not 0.
template <DeviceAllocator::CountedBy counted_by, class Admit>
[[gnu::always_inline]] inline Block* DeviceAllocator::allocate_usual(StreamEntry& entry,
                                                                     uint64_t requested,
                                                                     Stream stream, Admit admit) {
  Shard& shard = *entry.shard;
  const uint64_t size = round_up(requested, kMinBlockSize);
  const bool is_small = size <= kSmallSize;
  StreamFreeList* const list = entry.default_lists[is_small];
  const bool is_of_stream = entry.stream.load(std::memory_order_relaxed) == stream;
  if (!list || !is_of_stream) [[unlikely]]
    return nullptr;
  LastFreeCache& kept = shard.last;
  if (!kept.is_empty()) [[unlikely]] {
    Block* const last = kept.handed_out;
    if (kept.is_kept() && last->requested == requested && last->segment()->list == list) {
      if (!admit(last->size)) return nullptr;
      kept.hand_out_again();
      last->set(Block::kUsed);
      return last;
    }
    flush(shard);
  }
  Block* block = list->free.first_at_least(size);
  if (!block) [[unlikely]]
    return nullptr;
  if (block->is(Block::kExpandable)) [[unlikely]] {
    if (!hit_rules_.is_expandable) return nullptr;
    block = step_to_smaller_reach(*list, block);
  }
  if (block->size >= hit_rules_.oversize) [[unlikely]]
    return nullptr;
  const AddressTable::Place place = shared_.addresses.place(block->address);
  if (!place.has_room()) [[unlikely]]
    return nullptr;
  const bool splits = block->size - size >= hit_rules_.least_remainder[is_small];
  if (splits && shard.supply.is_empty()) [[unlikely]]
    return nullptr;
  const uint64_t taken = splits ? size : block->size;
  const bool is_counted =
      admit(taken) &&
      count_hit<counted_by>(shard, *list, [&](Counters& counters, Counters::Row& kind) {
        return count_hand_out(counters, kind, block, taken, requested, splits);
      });
  if (!is_counted) [[unlikely]]
    return nullptr;
  list->free.remove(block);
  if (splits) {
    Block* const remainder = block;
    block = SegmentHeap::split_front(shard.supply, block, size);
    list->free.insert(remainder);
  }
  kept.handed_out = keeps_last_free<counted_by>(shard) ? block : nullptr;
  block->set(Block::kUsed);
  block->requested = requested;
  AddressTable::set(place, BlockArena::number_of(block));
  return block;
}

// False: refused by the counters, or oversize. pre: no flag is set; a block that is used, and by no
// other stream.
[[gnu::always_inline]] inline bool DeviceAllocator::free_usual(Shard& shard, Block* block) {
  if (block->size >= hit_rules_.oversize) [[unlikely]]
    return false;
  if (shard.account.is_shared) return free_sharing(shard, block);
  return keep_or_put_back<CountedBy::kShard>(shard, block);
}

// ---- The same, of the device or the block that a call names

// No stream has an entry under the per-thread handle, which means another stream on each thread.
[[gnu::always_inline]] inline Address HitPath::try_allocate(uint64_t size, int device,
                                                            Stream stream) const {
  const auto index = static_cast<uint32_t>(device);
  const bool is_usual =
      index < device_count_.load(std::memory_order_relaxed) && size - 1 < kTooLarge - 1;
  return is_usual ? devices_[index]->try_allocate(size, stream) : 0;
}

[[gnu::always_inline]] inline bool HitPath::try_free(Address address) const {
  if (device_count_.load(std::memory_order_relaxed) == 0) [[unlikely]]
    return false;
  const auto [shard, block] = shared_->find(address);
  return block && shard->device->try_free(*shard, block, address);
}

}  // namespace cachalot
