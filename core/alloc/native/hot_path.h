// SPDX-License-Identifier: MIT OR Apache-2.0
// The hit: what a request or a free is while no flag of the slow path is set. The same decisions as in
// block_cache.cpp, with all that cannot apply left out; the golden files are compared on both
// paths. Decide, count, apply: nothing has changed where the counters refuse.
//
// Note [Registers of a hit]
// Rationale: a hit has more values at hand than a processor has registers. Each that has to be kept
// aside costs two instructions, and an object on the stack costs seven more where a compiler protects
// stacks (CACHALOT_HARDENING), because it then checks the frame of each call.
// Approach: a hit is inline from the C function on. What the general path alone needs of the arguments
// waits on the stack (volatile), instead of in registers. Everything that is rare, or takes the address
// of an object, has a function of its own that is not inlined and gets its arguments in registers.
#pragma once

#include "alloc/native/block_cache.h"
#include "alloc/native/device_allocator.h"
#include "alloc/native/hit_path.h"
#include "alloc/shards/last_free.h"
#include "base/pause.h"

namespace cachalot {
namespace hits {

// Who counts a hit; a constant. Its shard, the account that shards share, or the device, which is used
// as a whole.
enum class CountedBy { kShard, kSharedAccount, kDevice };

// The flags of a device on which a hit needs nothing more.
template <DecidedBy decided_by>
inline constexpr uint32_t kFlagsOfHits =
    decided_by == DecidedBy::kServing ? uint32_t{SlowPath::kServing} : 0;

// count(counters, row of the kind): whether the counters agree.
template <CountedBy counted_by, class Count>
[[gnu::always_inline]] inline bool count_hit(DeviceState& device, Shard& shard,
                                             StreamFreeList& list, Count count) {
  if (counted_by == CountedBy::kShard) return count(shard.account.counters, *list.counters);
  return counted_by == CountedBy::kSharedAccount
             ? device.shards.peaks().count_shared(shard.account, list.is_small, count)
             : device.shards.peaks().count_of_whole(shard.account, list.is_small, count);
}

// Counts a hand-out. False: refused by the counters.
template <DecidedBy decided_by>
[[gnu::always_inline]] inline bool count_hand_out(Counters& counters, Counters::Row& kind,
                                                  const Block* block, uint64_t size,
                                                  uint64_t requested, bool splits) {
  if (decided_by == DecidedBy::kReference)
    return cachalot::count_hand_out(counters, kind, block, size, requested, splits);
  return counters.hand_out_expandable(kind, static_cast<int64_t>(size),
                                      static_cast<int64_t>(requested));
}

// ---- Freeing

// Whether a call frees a live block that no other stream uses. Recorded uses and memory that was idle
// have flags of their own, so one comparison tells it all. Under the serving policy the block is not of
// a plain segment, which a pool with a source of its own has.
template <DecidedBy decided_by = DecidedBy::kReference>
[[gnu::always_inline]] inline bool is_usual_free(const Block* block, Address address) {
  constexpr uint64_t kUsedPages = Block::kUsed | Block::kExpandable;
  if (block->address != address) return false;
  if constexpr (decided_by == DecidedBy::kServing) return block->flags() == kUsedPages;
  return (block->flags() & ~uint64_t{Block::kExpandable}) == Block::kUsed;
}

// False (here and below): refused by the counters, and nothing has changed. pre: a mapped block that the
// caller freed.
template <CountedBy counted_by, DecidedBy decided_by = DecidedBy::kReference>
[[gnu::always_inline]] inline bool put_back(DeviceState& device, Shard& shard, Block* block) {
  const HitRules& rules = device.settings.hit_rules();
  const bool is_counted =
      put_back<decided_by>(device.heap, rules, shard, block, [&](StreamFreeList& list, auto count) {
        return count_hit<counted_by>(device, shard, list, count);
      });
  if (decided_by == DecidedBy::kServing && is_counted) block->requested = rules.clock;
  return is_counted;
}

// The same, unless the block is kept: see Note [Last free].
template <CountedBy counted_by, DecidedBy decided_by = DecidedBy::kReference>
[[gnu::always_inline]] inline bool keep_or_put_back(DeviceState& device, Shard& shard,
                                                    Block* block) {
  LastFreeCache& kept = shard.last;
  if (block == kept.handed_out) {
    block->clear(Block::kUsed);
    kept.keep();
    return true;
  }
  // While this block is used, so that no neighbour takes it in.
  if (!kept.is_empty()) [[unlikely]]
    flush(device.heap, device.settings.hit_rules(), shard);
  kept.handed_out = nullptr;
  return put_back<counted_by, decided_by>(device, shard, block);
}

// The shard uses the shared account, and keeps no free.
template <DecidedBy decided_by>
[[gnu::noinline]] bool free_sharing(DeviceState& device, Shard& shard, Block* block) {
  return put_back<CountedBy::kSharedAccount, decided_by>(device, shard, block);
}

// False: refused by the counters, or a neighbour's stamps are to be kept. pre: no flag but those of every
// hit; a block that is used, and by no other stream.
template <DecidedBy decided_by>
[[gnu::always_inline]] inline bool free_usual(DeviceState& device, Shard& shard, Block* block) {
  if (decided_by == DecidedBy::kServing && BlockCache::has_foreign_neighbour(block)) [[unlikely]]
    return false;
  if (shard.account.is_shared) return free_sharing<decided_by>(device, shard, block);
  return keep_or_put_back<CountedBy::kShard, decided_by>(device, shard, block);
}

// ---- Allocating

// See Note [Last free].
template <CountedBy counted_by>
[[gnu::always_inline]] inline bool keeps_last_free(const Shard& shard) {
  return counted_by == CountedBy::kShard ||
         (counted_by == CountedBy::kDevice && shard.account.counters.is_alone());
}

// size: what it takes of the block; all of it, or what leaves a rest to split off. Null: not admitted,
// refused by the counters, or something has to be made first. admit(bytes of the block): the last
// question before the counters.
// count(counters, row of the kind, whether it splits): whether the counters agree.
template <CountedBy counted_by, class Admit, class Count>
[[gnu::always_inline]] inline Block* hand_out(DeviceState& device, Shard& shard,
                                              StreamFreeList& list, Block* block,
                                              uint64_t requested, uint64_t size, Admit admit,
                                              Count count) {
  const AddressTable::Place place = device.shared.addresses.place(block->address);
  if (!place.has_room() || shard.supply.is_empty()) [[unlikely]]
    return nullptr;
  const bool splits = size != block->size;
  const bool is_counted =
      admit(size) &&
      count_hit<counted_by>(device, shard, list, [&](Counters& counters, Counters::Row& kind) {
        return count(counters, kind, splits);
      });
  if (!is_counted) [[unlikely]]
    return nullptr;
  list.free.remove(block);
  if (splits) {
    Block* const remainder = block;
    block = SegmentHeap::split_front(shard.supply, block, size);
    list.free.insert(remainder);
  }
  shard.last.handed_out = keeps_last_free<counted_by>(shard) ? block : nullptr;
  block->set(Block::kUsed);
  block->requested = requested;
  AddressTable::set(place, BlockArena::number_of(block));
  return block;
}

// Note [Oversize hits]
// Rationale: with a finite max_split_size the large requests of a program are oversize, and a search in
// the cache serves them like others.
// Approach: what differs has functions of its own, since a usual hit has no room for it. An oversize
// block is taken whole, and only by requests of nearly its size [core 6.6, 7.3]. It is counted as
// oversize, also when it is freed (count_free_of_oversize() in last_free.h).
// Limitations: where expandable segments are active the general path decides.
template <CountedBy counted_by, class Admit>
[[gnu::noinline]] Block* allocate_oversize(DeviceState& device, Shard& shard, StreamFreeList& list,
                                           Block* block, uint64_t requested, Admit admit) {
  const HitRules& rules = device.settings.hit_rules();
  const uint64_t size = round_up(requested, kMinBlockSize);
  const bool is_hit = !rules.expandable_segments && rules.is_oversize(size) &&
                      block->size < size + rules.max_non_split_rounding_size;
  if (!is_hit) return nullptr;
  return hand_out<counted_by>(device, shard, list, block, requested, block->size, admit,
                              [&](Counters& counters, Counters::Row& kind, bool splits) {
                                Counters::Change change =
                                    change_of_hand_out(block, block->size, requested, splits);
                                change.oversize = 1;
                                return counters.move(kind, Counters::handing_out(change));
                              });
}

// Whether the best fit serves, or another one does. Null: the general path decides.
template <DecidedBy decided_by>
[[gnu::always_inline]] inline Block* decide(const HitRules& rules, const StreamFreeList& list,
                                            Block* best) {
  if (decided_by == DecidedBy::kServing) return best->is(Block::kForeign) ? nullptr : best;
  if (!best->is(Block::kExpandable)) [[likely]]
    return best;
  return rules.expandable_segments ? step_to_smaller_reach(list, best) : nullptr;
}

// Null: a miss, or not admitted. pre: requested is not 0.
template <CountedBy counted_by, DecidedBy decided_by = DecidedBy::kReference, class Admit>
[[gnu::always_inline]] inline Block* allocate_usual(DeviceState& device, StreamEntry& entry,
                                                    uint64_t requested, Stream stream,
                                                    Admit admit) {
  CACHALOT_ASSERT(1, requested > 0 && requested <= kTooLarge);
  const HitRules& rules = device.settings.hit_rules();
  Shard& shard = *entry.shard;
  const uint64_t size = round_up(requested, kMinBlockSize);
  const bool is_small = size <= kSmallSize;
  StreamFreeList* const list = entry.default_lists[is_small];
  const bool is_of_stream = entry.stream.load(std::memory_order_relaxed) == stream;
  if (!list || !is_of_stream) [[unlikely]]
    return nullptr;
  LastFreeCache& kept = shard.last;
  if (!kept.is_empty()) [[unlikely]] {
    Block* const last = kept.handed_out;
    if (kept.is_kept() && last->requested == requested && last->segment()->list == list) {
      if (!admit(last->size)) return nullptr;
      kept.hand_out_again();
      last->set(Block::kUsed);
      return last;
    }
    flush(device.heap, rules, shard);
  }
  Block* block = list->free.first_at_least(size);
  if (block) [[likely]]
    block = decide<decided_by>(rules, *list, block);
  if (!block) [[unlikely]]
    return nullptr;
  if (decided_by == DecidedBy::kReference && rules.is_oversize(block->size)) [[unlikely]]
    return allocate_oversize<counted_by>(device, shard, *list, block, requested, admit);
  const bool leaves_rest = decided_by == DecidedBy::kServing
                               ? block->size != size
                               : block->size - size >= rules.least_remainder[is_small];
  const uint64_t taken = leaves_rest ? size : block->size;
  return hand_out<counted_by>(device, shard, *list, block, requested, taken, admit,
                              [&](Counters& counters, Counters::Row& kind, bool splits) {
                                return count_hand_out<decided_by>(counters, kind, block, taken,
                                                                  requested, splits);
                              });
}

[[gnu::always_inline]] inline Address address_or_0(const Block* block) {
  return block ? block->address : 0;
}

// The shard uses the shared account, and keeps no free.
template <DecidedBy decided_by>
[[gnu::noinline]] Address allocate_sharing(DeviceState& device, StreamEntry& entry,
                                           uint64_t requested, Stream stream) {
  return address_or_0(allocate_usual<CountedBy::kSharedAccount, decided_by>(
      device, entry, requested, stream, [](uint64_t) { return true; }));
}

// ---- Calls

// A few tries, since another hit gives the lock back at once.
[[gnu::noinline]] inline bool try_lock(Lock& lock) {
  constexpr int kTries = 16;
  for (int tries = 0; !lock.try_lock(); pause_briefly(4))
    if (++tries == kTries) return false;
  return true;
}

// Whether the caller has the lock now.
template <Waiting waiting>
[[gnu::always_inline]] inline bool take(Lock& lock) {
  if constexpr (waiting == Waiting::kForbidden) return try_lock(lock);
  lock.lock();
  return true;
}

// With labels, tenants or history (attributed_hits.cpp).
template <DecidedBy decided_by>
Address allocate_attributed(DeviceState& device, StreamEntry& entry, uint64_t requested,
                            Stream stream);
template <DecidedBy decided_by>
bool free_attributed(DeviceState& device, Shard& shard, Block* block, Address address);

// 0: not a hit, or more than a hit; nothing has changed. pre: requested is not 0. An attributed hit takes the
// device's lock, so where waiting is forbidden such a call gives 0.
template <DecidedBy decided_by, Waiting waiting = Waiting::kAllowed>
[[gnu::always_inline]] inline Address try_allocate(DeviceState& device, uint64_t requested,
                                                   Stream stream) {
  StreamEntry* const entry = device.shards.find(stream);
  if (!entry) [[unlikely]]
    return 0;
  // Before the shard's lock too: an attributed hit does not need it. And before the device's lock, which
  // a snapshot keeps for as long as it copies, and a miss during its call of the driver.
  const uint32_t flags = device.flags.load();
  if (flags != kFlagsOfHits<decided_by>) [[unlikely]]
    return waiting == Waiting::kAllowed && SlowPath::is_attributed(flags)
               ? allocate_attributed<decided_by>(device, *entry, requested, stream)
               : 0;
  Shard* const shard = entry->shard;
  if (!take<waiting>(shard->lock)) return 0;
  Address address = 0;
  if (device.flags.load() == kFlagsOfHits<decided_by>) [[likely]] {
    address = shard->account.is_shared
                  ? allocate_sharing<decided_by>(device, *entry, requested, stream)
                  : address_or_0(allocate_usual<CountedBy::kShard, decided_by>(
                        device, *entry, requested, stream, [](uint64_t) { return true; }));
  }
  shard->lock.unlock();
  return address;
}

// False: not a live block, or more than a usual free; nothing has changed.
template <DecidedBy decided_by, Waiting waiting = Waiting::kAllowed>
[[gnu::always_inline]] inline bool try_free(DeviceState& device, Shard& shard, Block* block,
                                            Address address) {
  const uint32_t flags = device.flags.load();
  if (flags != kFlagsOfHits<decided_by>) [[unlikely]]
    return waiting == Waiting::kAllowed && SlowPath::is_attributed(flags) &&
           free_attributed<decided_by>(device, shard, block, address);
  if (!take<waiting>(shard.lock)) return false;
  const bool is_freed = device.flags.load() == kFlagsOfHits<decided_by> &&
                        is_usual_free<decided_by>(block, address) &&
                        free_usual<decided_by>(device, shard, block);
  shard.lock.unlock();
  return is_freed;
}

}  // namespace hits

// ---- The same, of the device or the block that a call names

template <DecidedBy decided_by, Waiting waiting>
[[gnu::always_inline]] inline Address DeviceAllocator::try_allocate(uint64_t requested,
                                                                    Stream stream) {
  return hits::try_allocate<decided_by, waiting>(state_, requested, stream);
}

template <DecidedBy decided_by, Waiting waiting>
[[gnu::always_inline]] inline bool DeviceAllocator::try_free(Shard& shard, Block* block,
                                                             Address address) {
  return hits::try_free<decided_by, waiting>(state_, shard, block, address);
}

// No stream has an entry under the per-thread handle, which means another stream on each thread.
template <Waiting waiting>
[[gnu::always_inline]] inline Address HitPath::allocate_or_0(uint64_t size, int device,
                                                             Stream stream) const {
  return devices_[device]->try_allocate<DecidedBy::kReference, waiting>(size, stream);
}

template <Waiting waiting>
[[gnu::always_inline]] inline bool HitPath::free_if_usual(Address address) const {
  const auto [shard, block] = shared_->find(address);
  return block && shard->device->try_free<DecidedBy::kReference, waiting>(*shard, block, address);
}

template <Waiting waiting>
[[gnu::always_inline]] inline Address HitPath::try_allocate_serving(uint64_t size, int device,
                                                                    Stream stream) const {
  if (!is_usual(size, device, serving_count_)) [[unlikely]]
    return 0;
  return devices_[device]->try_allocate<DecidedBy::kServing, waiting>(size, stream);
}

template <Waiting waiting>
[[gnu::always_inline]] inline bool HitPath::try_free_serving(Address address) const {
  if (serving_count_.load(std::memory_order_relaxed) == 0) return false;
  const auto [shard, block] = shared_->find(address);
  return block && shard->device->try_free<DecidedBy::kServing, waiting>(*shard, block, address);
}

template <Waiting waiting>
inline Address HitPath::try_allocate(uint64_t size, int device, Stream stream) const {
  return may_allocate(size, device) ? allocate_or_0<waiting>(size, device, stream)
                                    : try_allocate_serving<waiting>(size, device, stream);
}

template <Waiting waiting>
inline bool HitPath::try_free(Address address) const {
  return may_free() ? free_if_usual<waiting>(address) : try_free_serving<waiting>(address);
}

}  // namespace cachalot
