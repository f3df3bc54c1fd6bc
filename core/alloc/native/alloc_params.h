// SPDX-License-Identifier: MIT OR Apache-2.0
// One request on its way through a device.
#pragma once

#include <cstdint>

#include "alloc/heap/block_pool.h"
#include "alloc/shards/shard.h"
#include "alloc/tenants/block_owners.h"

namespace cachalot {

// The letters are those of docs/behaviour/allocator.md. On the stack of its request; only the
// thread of the request reads it.
struct AllocParams {
  uint64_t requested;         // n
  uint64_t size;              // S
  uint64_t segment_size = 0;  // A; known from the first miss on
  Stream stream;
  Stream current_stream;
  StreamEntry* entry;  // of the stream; null where only questions are asked, and there is none
  BlockPool* pool;
  bool expandable;  // active for this request [core 8.4]
  ContextId context;
  BlockOwners::Owner owner = {};
  uint64_t reserved_when_rejected = 0;  // T
  bool rejected = false;                // R31
  bool source_gave_null = false;        // R82

  // Null: nothing was obtained for this pool and stream yet.
  StreamFreeList* list() const {
    if (pool->owner) return pool->find(stream);
    return entry ? entry->default_lists[pool->is_small] : nullptr;
  }
  Shard& shard() const { return *entry->shard; }
};

}  // namespace cachalot
