// SPDX-License-Identifier: MIT OR Apache-2.0
// The blocks of a device on the general path: the search for a free one, how it is handed out, how it
// comes back.
#pragma once

#include <optional>

#include "alloc/heap/request.h"
#include "alloc/native/alloc_params.h"
#include "alloc/native/device_state.h"

namespace cachalot {

// [core 6.4 a] Keeps a block in front of the growing tail for growth while another one reaches less
// far.
Block* step_to_smaller_reach(const StreamFreeList& list, Block* block);

// pre of all functions: the shard of the block or of the request's stream, unless one says otherwise.
class BlockCache : private DeviceOperation {
 public:
  explicit BlockCache(DeviceState& device) : DeviceOperation(device) {}

  // ---- Requests
  // entry: of the stream; null where only questions are asked, and there is none.
  AllocParams make_params(StreamEntry* entry, const Request& request, ContextId context) const;

  // A: what the driver is asked for [core 5.2].
  uint64_t segment_size_for(const AllocParams& params) const;

  // ---- The search
  // Null: there is none [core 6.3, 6.4].
  Block* best_fit(const AllocParams& params) const;
  // [core 6.6] The search looks at this candidate only.
  bool is_oversize_mismatch(const AllocParams& params, const Block* block) const;
  // Takes the block out of its free set; null: not found [core 6].
  Block* get_free_block(AllocParams& params);
  // A free block of the request's pool and stream that has its bytes at this address; null: there is
  // none. pre: the whole device.
  Block* free_block_around(const AllocParams& params, Address address);

  // ---- The hand-out
  bool should_split(const AllocParams& params, const Block* block) const;
  // Null: refused by the counters, and nothing has changed. pre: a block in no set.
  Block* alloc_found_block(Block* block, const AllocParams& params, bool split);
  // Of a block that was found and is not to be handed out. pre: the whole device.
  void put_back(Block* block);

  // ---- The way back
  // Whether a free of the block would take in one that other streams used.
  static bool has_foreign_neighbour(const Block* block) {
    return ((block->prev->home | block->next->home) & Block::kForeign) != 0;
  }
  // False: refused by the counters. pre: no flag of the whole device; a block in use that no other
  // stream uses.
  bool free_to_cache(Shard& shard, Block* block);
  // The caller's free. It completes at once, or waits for other streams. pre: the whole device.
  void free(Block* block, std::optional<Stream> current_stream, ContextId context);
  // [core 10.2] pre: the whole device; the block is neither used nor waiting.
  void complete_free(Block* block, ContextId context);

  // ---- Free lists of streams. pre: the device's lock.
  // Made where there is none. pre: the shard of the stream too. Throws std::bad_alloc.
  StreamFreeList& list_for(BlockPool& pool, Stream stream);
  void drop_empty_lists(BlockPool& pool);

 private:
  Block* without_wait(const StreamFreeList& list, Block* block) const;
  BlockPool& pool_for(uint64_t size, Stream stream) const;
  Counters::Change change_of_any_free(const Block* block, Neighbours free) const;
};

}  // namespace cachalot
