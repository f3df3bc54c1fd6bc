// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/general_path.h"

#include <vector>

#include "alloc/native/admission.h"
#include "alloc/native/miss.h"
#include "base/text.h"

namespace cachalot {

// ---- Allocating

// Tries with the shard alone first: most requests that are no hit are one step away from it
// (headroom, a rounding, a context).
Address GeneralPath::allocate(const Request& request) {
  const ContextId context = device_.recorder.capture_context(ContextLevel::kState);
  StreamEntry* const entry = request.at == 0 ? device_.shards.find(request.stream) : nullptr;
  Address address = 0;
  const auto step = [&] { return allocate_from_cache(*entry, request, context, &address); };
  if (entry && device_.shards.with_headroom(*entry->shard, step)) return address;
  return allocate_on_device(request, context);
}

// pre: the shard.
Shards::Step GeneralPath::allocate_from_cache(StreamEntry& entry, const Request& request,
                                              ContextId context, Address* address) {
  if (entry.stream.load(std::memory_order_relaxed) != request.stream)
    return Shards::Step::kNeedsDevice;
  // The object for a remainder. What can fail comes before the block leaves its set.
  device_.heap.reserve(entry.shard->supply, 1);
  AllocParams params = cache_.make_params(&entry, request, context);
  Block* const found = cache_.get_free_block(params);
  if (!found) return Shards::Step::kNeedsDevice;
  if (found->is(Block::kForeign)) [[unlikely]] {
    params.list()->free.insert(found);
    return Shards::Step::kNeedsDevice;
  }
  if (const Block* block =
          cache_.alloc_found_block(found, params, cache_.should_split(params, found))) {
    *address = block->address;
    return Shards::Step::kDone;
  }
  // The counters refused: the block goes back, and the step is tried again after a recall.
  params.list()->free.insert(found);
  return Shards::Step::kRefused;
}

// Serves what the shard alone cannot: routed requests, misses.
Address GeneralPath::allocate_on_device(const Request& request, ContextId context) {
  DeviceLock lock(device_.shards, request.stream);
  if (request.at != 0) {
    lock.lock_whole();
    return allocate_at(request, context, lock);
  }
  if (has(kPendingFrees | kRouting | kMarkedCapture)) free_what_is_ready(request, context);
  AllocParams params = cache_.make_params(&lock.entry(), request, context);
  // The label stays pinned until the block is handed out, since the device may be unlocked
  // meanwhile.
  const LabelPin label = device_.owners.pin_label();
  params.owner.label = label.slot();
  // The booking ends with this call, whatever way it ends: by then the block is counted or the
  // request has failed.
  const TenantBooking booking = Admission(device_, params, lock).admit(request);
  // Only with the whole device the policy can let one stream wait for another.
  if (device_.policy) lock.lock_whole();
  device_.heap.reserve(params.shard().supply, 1);
  Block* block = cache_.get_free_block(params);
  if (!block) [[unlikely]]
    block = Miss(device_, params, lock).obtain();
  if (device_.policy) prepare_hand_out(block, params);
  Block* used = nullptr;
  device_.shards.with_headroom_of_locked(params.shard(), [&] {
    used = cache_.alloc_found_block(block, params, cache_.should_split(params, block));
    return used ? Shards::Step::kDone : Shards::Step::kRefused;
  });
  if (device_.policy) device_.policy->handed_out(block, used, params.stream);
  return used->address;
}

void GeneralPath::prepare_hand_out(Block* block, const AllocParams& params) {
  try {
    device_.policy->before_hand_out(block, params.stream);
  } catch (...) {
    cache_.put_back(block);
    throw;
  }
}

// [core 8.2] Before the search, so that the request can have what has just become free.
void GeneralPath::free_what_is_ready(const Request& request, ContextId context) {
  if (!device_.captures.is_capture_context(request.current_stream)) {
    if (has(kPendingFrees)) device_.pending.process_events(context);
  } else if (settings().graph_capture_record_stream_reuse) {
    device_.pending.recover_deferred_frees(
        request.stream, [&](Stream stream) { return device_.pools.route_of(stream); }, context);
  }
}

// ---- At an address (R50, R51)

// Serves only from free blocks that lie there already: no memory is obtained for it.
Address GeneralPath::allocate_at(const Request& request, ContextId context, DeviceLock& lock) {
  free_what_is_ready(request, context);
  AllocParams params = cache_.make_params(&lock.entry(), request, context);
  const LabelPin label = device_.owners.pin_label();
  params.owner.label = label.slot();
  const TenantBooking booking = Admission(device_, params, lock).admit(request);
  device_.heap.reserve(params.shard().supply, 2);
  Block* block = cache_.free_block_around(params, request.at);
  if (!block) {
    throw_invalid_state("Could not allocate CUDA storage at exact address " +
                        hex_address(request.at));
  }
  if (device_.policy) device_.policy->before_hand_out(block, params.stream);
  for (const Address address : {block->address, request.at})
    device_.shared.addresses.make_room(address);
  // R48. Nothing throws until it is taken away.
  device_.recorder.set_internal_tag("mallocWithAddress");
  SegmentHeap::remove_free(block);
  // R51: allocates what lies before and frees it again, so history and peaks show both.
  Block* front = nullptr;
  if (block->address < request.at) {
    AllocParams front_params = params;
    front_params.requested = front_params.size = request.at - block->address;
    front = cache_.alloc_found_block(block, front_params, true);
    if (device_.policy) device_.policy->handed_out(block, front, params.stream);
    SegmentHeap::remove_free(block);
  }
  Block* const found = block;
  block = cache_.alloc_found_block(found, params, cache_.should_split(params, found));
  if (device_.policy) device_.policy->handed_out(found, block, params.stream);
  if (front) cache_.free(front, request.current_stream, kNoContext);
  device_.recorder.set_internal_tag("");
  return block->address;
}

// ---- Freeing

[[noreturn]] static void throw_shared(Address address) {
  throw_invalid_state("the block at " + hex_address(address) +
                      " is shared with other processes: it is freed when the last of them and its "
                      "cachalot_shared_block are done with it");
}

// False: not a live block. The question is asked under the lock that the step has, since the block
// may be freed by another thread meanwhile.
bool GeneralPath::free(Shard& shard, Block* block, Address address,
                       std::optional<Stream> current_stream) {
  const ContextId context = device_.recorder.capture_context(ContextLevel::kAll);
  bool was_live = true;
  const auto step = [&] {
    was_live = block->is_live_at(address);
    if (!was_live) return Shards::Step::kDone;
    if (block->is(Block::kRecorded | Block::kForeign | Block::kWhole | Block::kShared) ||
        cache_.has_foreign_neighbour(block))
      return Shards::Step::kNeedsDevice;
    return cache_.free_to_cache(shard, block) ? Shards::Step::kDone : Shards::Step::kRefused;
  };
  if (device_.shards.with_headroom(shard, step)) return was_live;
  const DeviceLock lock(device_.shards);
  if (!block->is_live_at(address)) return false;
  if (block->is(Block::kShared)) throw_shared(address);
  cache_.free(block, current_stream ? current_stream : device_.assumed_caller(block), context);
  return true;
}

// Also blocks that other streams use: the device has done all its work before the first free.
void GeneralPath::free_all() {
  const DeviceLock lock(device_.shards);
  // A list first: a free merges blocks, which would break the walk.
  std::vector<Block*> live;
  device_.heap.for_each_block([&](Block* b) {
    if (b->is(Block::kUsed)) live.push_back(b);
  });
  if (live.empty()) return;
  driver().device_synchronize(device_.index);  // a device that is lost has no work to wait for
  for (Block* block : live) {
    device_.pending.forget_uses(block);
    cache_.free(block, device_.stream_of(block), kNoContext);
  }
}

}  // namespace cachalot
