// SPDX-License-Identifier: MIT OR Apache-2.0
// Block pools: the free blocks of one size class, of the default memory or of a private pool (1.4).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "alloc/counters.h"
#include "alloc/free_blocks.h"
#include "alloc/pool_id.h"
#include "alloc/stream_table.h"
#include "base/assert.h"

namespace cachalot {

struct BlockPool;
class BlockSupply;
struct PrivatePool;
struct Shard;

// The part of a pool that belongs to one stream.
struct Shelf {
  Shelf(BlockPool* owner, StreamEntry* of_stream, Counters::Row* of_shard, BlockSupply* of_objects,
        bool small, bool ties_by_segment_number)
      : pool(owner),
        counters(of_shard),
        supply(of_objects),
        shard(of_stream->shard),
        entry(of_stream),
        stream(of_stream->stream),
        is_small(small),
        free(ties_by_segment_number) {}

  BlockPool* pool;
  Counters::Row* counters;  // its shard's for this size class, where the shard counts for itself
  BlockSupply* supply;      // likewise
  Shard* shard;             // of its stream
  StreamEntry* entry;       // likewise
  Stream stream;
  bool is_small;
  uint64_t segments = 0;  // that were obtained for it and are still there
  FreeBlocks free;
};

struct BlockPool {
  BlockPool(bool small, PrivatePool* private_pool) : is_small(small), owner(private_pool) {}

  // Unmapped ranges of expandable segments: by stream, then address.
  struct ByStreamAndAddress {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const {
      if (a->segment()->stream != b->segment()->stream)
        return a->segment()->stream < b->segment()->stream;
      return a->address < b->address;
    }
    bool operator()(const Block* a, Stream stream) const { return a->segment()->stream < stream; }
    bool operator()(Stream stream, const Block* a) const { return stream < a->segment()->stream; }
  };

  using Unmapped = std::set<Block*, ByStreamAndAddress>;

  // A place in the set for a block to come, so that its insertion can not fail.
  static Unmapped::node_type new_unmapped() {
    Unmapped one;
    one.insert(nullptr);
    return one.extract(one.begin());
  }
  void insert_unmapped(Unmapped::node_type place, Block* block) {
    CACHALOT_ASSERT(1, !place.empty() && block->is(Block::kUnmapped) && block->is_free());
    place.value() = block;
    const bool is_new = unmapped.insert(std::move(place)).inserted;
    CACHALOT_ASSERT(1, is_new);
  }

  // The shelf of a stream; null: nothing was ever obtained for it.
  Shelf* find(Stream stream) {
    const auto found = shelves.find(stream);
    CACHALOT_ASSERT(1, found == shelves.end() || found->second.pool == this);
    return found == shelves.end() ? nullptr : &found->second;
  }

  bool is_small;
  PrivatePool* owner;  // null: default memory
  bool no_split = false;
  uint32_t search_count = 0;  // ages free blocks; stands still without garbage collection (6.2)
  std::map<Stream, Shelf> shelves;  // in this order, so that walks go by stream (P22)
  Unmapped unmapped;
};

}  // namespace cachalot
