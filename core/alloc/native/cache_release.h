// SPDX-License-Identifier: MIT OR Apache-2.0
// Gives cached memory back to the driver: garbage collection [core 13], the releases of a miss, the cache
// emptied [core 15].
#pragma once

#include <optional>
#include <vector>

#include "alloc/native/alloc_params.h"
#include "alloc/native/device_state.h"
#include "alloc/native/plain_segments.h"

namespace cachalot {

class CacheRelease : private DeviceOperation {
 public:
  explicit CacheRelease(DeviceState& device) : DeviceOperation(device), plain_(device) {}

  // Releases cached segments whose age is the average or more, again and again, until the goal is
  // reached [core 13]. pre: kAging.
  void garbage_collect_cached_blocks(ContextId context);
  // Releases oversize blocks of the request's pool and stream [core 15.1]. Whether they were as large as
  // the request.
  bool release_available_cached_blocks(const AllocParams& params);
  // Releases free blocks of the request's pool until it has no more than so many bytes, or none is left to
  // release. Whether there was one. pre (here and below): a pool with whole blocks.
  bool release_whole_blocks(const AllocParams& params, uint64_t keep);
  // Before the driver is asked for the request's block.
  void keep_bound_of_whole_blocks(const AllocParams& params);
  // Releases what is cached, of one pool or of all that may be released [core 15.2].
  void release_cached_blocks(PoolId pool, std::optional<Stream> current_stream, ContextId context);
  // At the end of the device, from its destructor.
  void give_everything_back();

 private:
  // Of the pool; null: of all.
  void wait_for_work(PrivatePool* pool, std::optional<Stream> current_stream, ContextId context);
  void release_blocks(BlockPool& pool, ContextId context);
  void release_private_pool(PoolId id, std::optional<Stream> current_stream, ContextId context);
  // Whether a capture may use what a pool in use gives back.
  bool is_captured(std::optional<Stream> current_stream) const;
  std::vector<Block*> releasable_blocks(PrivatePool& pool) const;
  // A free block that is all of a plain segment, of which nothing is pinned.
  bool may_go(const Block* b) const {
    return !b->is(Block::kExpandable) && !b->is_split() &&
           !device_.heap.pins().has_any(b->address, b->address + b->size);
  }

  PlainSegments plain_;
};

}  // namespace cachalot
