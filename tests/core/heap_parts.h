// SPDX-License-Identifier: MIT OR Apache-2.0
// A heap with one shard and without a device, for classes that work on blocks.
#pragma once

#include <map>
#include <memory>

#include "alloc/heap/segment_heap.h"
#include "alloc/shards/shard.h"

namespace cachalot {

struct HeapParts {
  explicit HeapParts(SegmentHeap::Recycled recycled = [](const Block*) {})
      : heap(arena, flags, std::move(recycled)) {}

  StreamFreeList& list_for(BlockPool& pool, Stream stream) {
    StreamEntry& entry = entries.try_emplace(stream, &shard, stream).first->second;
    Counters::Row& row = shard.account.counters.row(Counters::kind_of(pool.is_small));
    return pool.lists.try_emplace(stream, &pool, &entry, &row, &shard.supply, pool.is_small, true)
        .first->second;
  }
  // The block that covers a new segment, behind the earlier ones.
  Block* add_segment(BlockPool& pool, Stream stream, uint64_t size) {
    auto segment = std::make_unique<Segment>();
    segment->address = next_address;
    segment->size = size;
    segment->stream = stream;
    next_address += 2 * size;
    heap.reserve(shard.supply, 16);
    return heap.add_segment(std::move(segment), list_for(pool, stream));
  }

  SlowPathFlags flags;
  BlockArena arena;
  Shard shard{nullptr};
  SegmentHeap heap;
  std::map<Stream, StreamEntry> entries;
  Address next_address = 0x700000000000;
};

}  // namespace cachalot
