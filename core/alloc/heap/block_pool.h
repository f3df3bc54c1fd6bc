// SPDX-License-Identifier: MIT OR Apache-2.0
// Block pools: the free blocks of one size class, of the default memory or a private pool [core 1.4].
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "alloc/config/pool_id.h"
#include "alloc/heap/stream_free_list.h"
#include "base/assert.h"

namespace cachalot {

struct PrivatePool;

// Owns the free sets of its streams and the set of unmapped ranges; the blocks belong to their
// segments. pre of a list: the lock of its shard; of all else the device's lock.
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

  // A node of the set for a later block: made before the driver is asked, so that the insertion behind
  // the driver's answer cannot fail.
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

  // The list of a stream; null: nothing was ever obtained for it.
  StreamFreeList* find(Stream stream) {
    const auto found = lists.find(stream);
    CACHALOT_ASSERT(1, found == lists.end() || found->second.pool == this);
    return found == lists.end() ? nullptr : &found->second;
  }

  bool is_small;
  PrivatePool* owner;  // null: default memory
  bool no_split = false;
  uint32_t search_count = 0;  // ages free blocks; counts under garbage collection only [core 6.2]
  std::map<Stream, StreamFreeList> lists;  // in this order, so that walks go by stream (P22)
  Unmapped unmapped;
};

}  // namespace cachalot
