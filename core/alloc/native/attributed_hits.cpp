// SPDX-License-Identifier: MIT OR Apache-2.0
// What labels, tenants and the history are told of allocations and frees, and the hits of a device
// where one of them is.
//
// Note [Attributed hits]
// Rationale: a label, a tenant and an entry of the history say whose a block is. They change no
// decision, so a hit stays a hit.
// Approach: such a device is used as a whole, under its own lock (kWholeDevice). A hit takes that lock
// instead of its shard's, and then takes the steps of hot_path.h. The account that counts has all
// headroom, so the counters refuse nothing. What may fail comes before: the slot of the label, and what
// the tenant is granted.
// Invariants: nothing has changed where a hit is refused; the general path then serves the call.
#include "alloc/native/hot_path.h"

namespace cachalot {

Address DeviceAllocator::allocate_attributed(StreamEntry& entry, uint64_t requested,
                                             Stream stream) {
  const std::lock_guard guard(lock_);
  const uint32_t flags = flags_.load();  // kAttribution changes under the lock only
  if (!is_only(flags, kAttribution) || !peaks_.counts_all(entry.shard->account)) return 0;
  const BlockOwners::Owner owner = owners_.of_thread(flags);
  const auto admit = [this, flags, &owner, requested](uint64_t bytes) {
    return !(flags & kTenants) ||
           tenants().count_if_granted(owner.tenant, round_up(requested, kMinBlockSize), bytes,
                                      requested);
  };
  Block* const block = allocate_usual<CountedBy::kDevice>(entry, requested, stream, admit);
  if (!block) return 0;
  if (flags & kTenants) block->detail().tenant = owner.tenant;
  if (flags & kLabels) owners_.take_label(block, owner.label);
  if (flags & kTracing)
    trace(Action::kAlloc, block->address, requested, stream, *list_of(block).pool, kNoContext);
  return block->address;
}

bool DeviceAllocator::free_attributed(Shard& shard, Block* block, Address address) {
  const std::lock_guard guard(lock_);
  const uint32_t flags = flags_.load();
  if (!is_only(flags, kAttribution) || !peaks_.counts_all(shard.account)) return false;
  if (!is_usual_free(block, address) || block->size >= hit_rules_.oversize) return false;
  CACHALOT_ASSERT(1, !peaks_.has_waiting());
  const StreamFreeList& list = list_of(block);
  if (flags & kTracing)
    recorder_.record_free(address, block->requested, list.stream, pool_id_of(*list.pool));
  if (flags & (kLabels | kTenants)) owners_.give_up(block);
  if (flags & kLabels) owners_.release_label(block);
  const bool is_freed = keep_or_put_back<CountedBy::kDevice>(shard, block);
  CACHALOT_ASSERT(1, is_freed);
  return true;
}

}  // namespace cachalot
