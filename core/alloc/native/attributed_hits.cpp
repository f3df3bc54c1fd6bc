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

namespace cachalot::hits {

namespace {

// Whether something is told of hits, and nothing else keeps them from being hits.
template <DecidedBy decided_by>
bool is_only_attributed(uint32_t flags) {
  return SlowPath::is_only(flags & ~kFlagsOfHits<decided_by>, SlowPath::kAttribution);
}

}  // namespace

template <DecidedBy decided_by>
Address allocate_attributed(DeviceState& device, StreamEntry& entry, uint64_t requested,
                            Stream stream) {
  const std::lock_guard guard(device.shards.lock());
  const uint32_t flags = device.flags.load();  // kAttribution changes under the lock only
  if (!is_only_attributed<decided_by>(flags) ||
      !device.shards.peaks().counts_all(entry.shard->account))
    return 0;
  const BlockOwners::Owner owner = device.owners.of_thread(flags);
  const auto admit = [&device, flags, &owner, requested](uint64_t bytes) {
    return !(flags & SlowPath::kTenants) ||
           device.owners.tenants().count_if_granted(
               owner.tenant, round_up(requested, kMinBlockSize), bytes, requested);
  };
  Block* const block =
      allocate_usual<CountedBy::kDevice, decided_by>(device, entry, requested, stream, admit);
  if (!block) return 0;
  if (flags & SlowPath::kTenants) block->detail().tenant = owner.tenant;
  if (flags & SlowPath::kLabels) device.owners.take_label(block, owner.label, flags);
  if (flags & SlowPath::kTracing)
    device.trace(Action::kAlloc, block->address, requested, stream, *list_of(block).pool,
                 kNoContext);
  return block->address;
}

template <DecidedBy decided_by>
bool free_attributed(DeviceState& device, Shard& shard, Block* block, Address address) {
  const std::lock_guard guard(device.shards.lock());
  const uint32_t flags = device.flags.load();
  if (!is_only_attributed<decided_by>(flags) || !device.shards.peaks().counts_all(shard.account))
    return false;
  if (!is_usual_free<decided_by>(block, address)) return false;
  if (decided_by == DecidedBy::kServing && BlockCache::has_foreign_neighbour(block)) return false;
  CACHALOT_ASSERT(1, !device.shards.peaks().has_waiting());
  const StreamFreeList& list = list_of(block);
  if (flags & SlowPath::kTracing)
    device.recorder.record_free(address, block->requested, list.stream, pool_id_of(*list.pool));
  if (flags & (SlowPath::kLabels | SlowPath::kTenants)) device.owners.give_up(block, flags);
  if (flags & SlowPath::kLabels) device.owners.release_label(block);
  const bool is_freed = keep_or_put_back<CountedBy::kDevice, decided_by>(device, shard, block);
  CACHALOT_ASSERT(1, is_freed);
  return true;
}

template Address allocate_attributed<DecidedBy::kReference>(DeviceState&, StreamEntry&, uint64_t,
                                                            Stream);
template Address allocate_attributed<DecidedBy::kServing>(DeviceState&, StreamEntry&, uint64_t,
                                                          Stream);
template bool free_attributed<DecidedBy::kReference>(DeviceState&, Shard&, Block*, Address);
template bool free_attributed<DecidedBy::kServing>(DeviceState&, Shard&, Block*, Address);

}  // namespace cachalot::hits
