// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/device_state.h"

#include "alloc/native/block_cache.h"

namespace cachalot {

DeviceState::DeviceState(SharedState& shared_state, int device, DeviceAllocator* allocator,
                         const MakeCachePolicy& make_policy)
    : settings(shared_state.settings.current(), shared_state.rules, flags, shared_state.serving),
      shared(shared_state),
      index(device),
      heap(shared.arena, flags, [this](const Block* block) { pending.forget_stale_uses(block); }),
      shards(allocator, heap, settings.hit_rules(), flags),
      pools(shared.rules, shared.log, flags),
      captures(shared.driver, shared.rules, index, flags),
      pending(shared.driver, index, shared.looks_in_stream_order, shared.log, captures, flags,
              *this),
      stats(shared.rules.counts_private_pool_bytes, settings.settings().shown_max_split_size()),
      owners(shared.labels, shared.tenants, index, flags),
      recorder(shared.contexts, shared.rules, index, flags),
      policy(make_policy ? make_policy(*this) : nullptr) {}

void DeviceState::complete_free(Block* block, ContextId context) {
  BlockCache(*this).complete_free(block, context);
}

}  // namespace cachalot
