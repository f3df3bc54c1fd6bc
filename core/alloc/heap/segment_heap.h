// SPDX-License-Identifier: MIT OR Apache-2.0
// The segments of one device, with the blocks that they are divided into: how segments come and go, how
// blocks split and merge, which of them are free.
//
// The steps on blocks are inline, because a hit is made of them. pre: of a step on a block the lock
// of its shard, of all else the device's lock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "alloc/heap/block_arena.h"
#include "alloc/heap/block_changes.h"
#include "alloc/heap/block_pool.h"
#include "alloc/heap/block_supply.h"
#include "alloc/heap/page_table.h"
#include "alloc/heap/pins.h"
#include "alloc/sync/slow_path_flags.h"

namespace cachalot {

// The free blocks of the block's pool and stream.
inline StreamFreeList& list_of(const Block* block) { return *block->segment()->list; }

// Owns the segments, their pins and the default pools; the block objects belong to the arena, the lists of
// private pools to those pools. Invariants: those of block.h; a block that is free and mapped is in
// the free set of its list, one that is unmapped in its pool's unmapped set, and no other block is
// in either.
class SegmentHeap : private SlowPath {
 public:
  using Segments = std::map<Address, std::unique_ptr<Segment>>;
  using Recycled = std::function<void(const Block*)>;

  // recycled: called for each object that no longer stands for a block, while kStaleUses is set.
  SegmentHeap(BlockArena& arena, const SlowPathFlags& flags, Recycled recycled)
      : arena_(arena), flags_(flags), recycled_(std::move(recycled)) {}

  // ---- Segments
  const Segments& segments() const { return segments_; }
  BlockPool& default_pool(bool is_small) { return default_pools_[is_small]; }
  // A segment that has a byte of the range; null: there is none.
  const Segment* segment_in(Address address, uint64_t size) const;
  // The block, in whatever state, that has the byte. pre: a segment has it.
  Block* block_around(Address address) const;
  // The segment gets one block, which covers it and is in no set. pre: reserve(); the range is new.
  Block* add_segment(std::unique_ptr<Segment> segment, StreamFreeList& list);
  // The block that is left covers its segment, and is in no set.
  void remove_segment(Block* only_block);
  template <class Visit>
  void for_each_block(Visit visit) const;
  // The blocks of the pool that are handed out, by address.
  std::vector<Block*> used_blocks(const PrivatePool& pool) const;
  Pins& pins() { return pins_; }
  const Pins& pins() const { return pins_; }
  // What the driver would get if the memory of a free block went back to it. A piece of a plain segment gives
  // nothing: the driver takes whole segments only.
  uint64_t releasable_bytes(const Block* free_block) const;
  uint64_t releasable_bytes(const BlockPool& pool) const;  // of its free blocks

  // ---- Block objects. Makes room for so many blocks, which then cannot fail. Throws
  // std::bad_alloc.
  void reserve(BlockSupply& supply, uint32_t count) { supply.reserve(count, arena_); }

  // ---- Steps on blocks
  // Makes the front a new block; the block itself stays as the remainder [core 9.2].
  static Block* split_front(BlockSupply& supply, Block* block, uint64_t size);
  // Makes the last bytes of a block a new block in the same state.
  static Block* split_back(Block* block, uint64_t size);
  // [core 11] The block takes free neighbours in, and keeps its identity.
  void merge(Block* block, Neighbours free);
  // The neighbour is in no set.
  void absorb_previous(BlockSupply& supply, Block* block);
  void absorb_next(BlockSupply& supply, Block* block);
  void insert_free(Block* block);
  static void remove_free(Block* block) { list_of(block).free.remove(block); }

 private:
  bool has(uint32_t flags) const { return flags_.has(flags); }
  // pre: the block is free.
  static void remove_from_its_set(Block* block);
  // The object stands for no block from now on. Its address may be found by a lookup without a
  // lock, which then sees that it is not used.
  void recycle(BlockSupply& supply, Block* block);
  // Leaves the object as BlockSupply::give() wants it.
  void forget_details(Block* block);

  BlockArena& arena_;
  const SlowPathFlags& flags_;
  const Recycled recycled_;
  BlockPool default_pools_[2] = {{false, nullptr}, {true, nullptr}};  // by is_small: no branch
  Segments segments_;
  Pins pins_;
};

template <class Visit>
void SegmentHeap::for_each_block(Visit visit) const {
  for (const auto& [address, segment] : segments_) {
    for (Block* b = segment->first(); b != &segment->ends; b = b->next) visit(b);
  }
}

inline Block* SegmentHeap::split_front(BlockSupply& supply, Block* block, uint64_t size) {
  CACHALOT_ASSERT(1, size > 0 && size < block->size);
  // The old object stays the remainder, as in the reference, whose snapshots show the remainder
  // with the size that was last requested of that object (P5).
  Block* front = supply.take();
  front->address = block->address;
  front->size = size;
  front->home = block->home;
  front->prev = block->prev;
  front->next = block;
  block->prev->next = front;
  block->prev = front;
  block->address += size;
  block->size -= size;
  return front;
}

[[gnu::always_inline]] inline void SegmentHeap::absorb_previous(BlockSupply& supply, Block* block) {
  Block* const previous = block->prev;
  CACHALOT_ASSERT(1, previous->is_free() && previous->address + previous->size == block->address);
  block->address = previous->address;
  block->prev = previous->prev;
  block->prev->next = block;
  // The context of the call that obtained the segment goes along here, not in absorb_next() (P32).
  if (has(kContexts)) [[unlikely]]
    block->detail().segment_context = previous->detail().segment_context;
  block->size += previous->size;
  recycle(supply, previous);
}

[[gnu::always_inline]] inline void SegmentHeap::absorb_next(BlockSupply& supply, Block* block) {
  Block* const next = block->next;
  CACHALOT_ASSERT(1, next->is_free() && block->address + block->size == next->address);
  block->next = next->next;
  block->next->prev = block;
  block->size += next->size;
  recycle(supply, next);
}

inline void SegmentHeap::recycle(BlockSupply& supply, Block* block) {
  if (has(kContexts | kMarks | kStaleUses)) [[unlikely]]
    forget_details(block);
  supply.give(block);
}

inline void SegmentHeap::insert_free(Block* block) {
  StreamFreeList& list = list_of(block);
  if (has(kMarks)) [[unlikely]]
    block->detail().mark = list.pool->search_count;
  list.free.insert(block);
}

}  // namespace cachalot
