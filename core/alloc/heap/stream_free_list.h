// SPDX-License-Identifier: MIT OR Apache-2.0
// The free blocks of one pool and one stream [core 1.4].
#pragma once

#include <cstdint>

#include "alloc/heap/free_blocks.h"
#include "alloc/heap/stream_entry.h"
#include "alloc/stats/counters.h"

namespace cachalot {

struct BlockPool;
class BlockSupply;

// Owns the set of free blocks and points to all that a hit needs, so that a hit follows one
// pointer. It lives in its pool for as long as a segment or a request needs it. The lock of the
// shard guards it.
struct StreamFreeList {
  StreamFreeList(BlockPool* owner, StreamEntry* of_stream, Counters::Row* of_shard,
                 BlockSupply* of_objects, bool small, bool ties_by_segment_number)
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

}  // namespace cachalot
