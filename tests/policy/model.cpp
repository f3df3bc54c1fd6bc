// SPDX-License-Identifier: MIT OR Apache-2.0
// The operations of the model, and what it counts.
#include "model.h"

#include <algorithm>

namespace cachalot::policy_model {

// ---- Requests

Address Model::allocate(uint64_t size, Stream stream) {
  if (size == 0) return 0;
  if (!is_capturing(stream) && !is(Fault::kNoLookAtEvents)) look_at_events();
  const uint64_t taken = rounded(size);
  const Ask ask{size, taken, stream, pool_of(stream), taken <= kLargestSmall};
  if (const auto found = find_memory(ask)) return hand_out(*found, ask);
  numbers_.out_of_memory++;
  throw Failure{Status::kOutOfMemory, kSuccess, shortage_of(ask)};
}

// [core 16]
OutOfMemory Model::shortage_of(const Ask& ask) {
  OutOfMemory shortage;
  shortage.stream = ask.stream;
  shortage.requested = ask.requested;
  shortage.segment_size = round_up(ask.size, options_.page_size);
  driver_.memory_info(0, &shortage.device_free, &shortage.device_total);
  shortage.limit = limit_ == kUnlimited ? 0 : limit_;
  shortage.allocated = static_cast<uint64_t>(numbers_.allocated[0].current);
  shortage.reserved = reserved_;
  for (const Range& range : ranges_) {
    for (const Block& block : range.blocks) {
      if (block.state != State::kCached) continue;
      shortage.largest_free_block = std::max(shortage.largest_free_block, block.size);
      if (!range.pool.is_default()) shortage.private_pools_free += block.size;
    }
  }
  return shortage;
}

std::optional<Address> Model::find_memory(const Ask& ask) {
  if (const auto found = best_fit(ask)) return found;
  auto found = search(ask);
  if (!found && wait_for_frees_and_holes(ask)) {
    found = best_fit(ask);
    if (!found) found = search(ask);
  }
  if (!is(Fault::kNoTick)) clock_++;
  return found;
}

// False: none waits, or none can be waited for.
bool Model::wait_for_frees_and_holes(const Ask& ask) {
  bool has_waited = false;
  const bool waits = !events_.empty() || !deferred_.empty();
  if (waits && !is_capturing(ask.stream) && !is(Fault::kNoRetry)) {
    numbers_.retries++;
    wait_for_events({});
    has_waited = true;
  }
  return wait_for_waiting_holes() || has_waited;
}

// The front of what was found goes out [policy P6].
Address Model::hand_out(Address found, const Ask& ask) {
  Range& range = range_at(found);
  cut(range, found);
  const Block block = block_at(found);
  try {
    wait_in_stream(block, ask.stream, range.stream);
  } catch (const Failure&) {
    merge(range);
    throw;
  }
  if (block.size > ask.size) cut(range, found + ask.size);
  Block& used = block_at(found);
  used.state = State::kUsed;
  used.user = ask.stream;
  used.requested = ask.requested;
  if (!is(Fault::kKeptStamps)) used.stamps.clear();
  if (range.stream != ask.stream) numbers_.policy.blocks_borrowed++;
  count(numbers_.allocated, ask.is_small, static_cast<int64_t>(ask.size));
  count(numbers_.active, ask.is_small, static_cast<int64_t>(ask.size));
  const uint64_t requested = ask.requested + (is(Fault::kMiscount) && ask.requested == 512 ? 1 : 0);
  count(numbers_.requested, ask.is_small, static_cast<int64_t>(requested));
  count(numbers_.used_blocks, ask.is_small, 1);
  count(numbers_.active_blocks, ask.is_small, 1);
  return found;
}

// [core 4]
uint64_t Model::rounded(uint64_t size) const {
  const uint64_t divisions = options_.divisions;
  if (divisions <= 1 || size <= 512 * divisions)
    return std::max<uint64_t>(512, round_up(size, 512));
  uint64_t power = 1;
  while (power * 2 <= size) power *= 2;
  return power == size ? size : round_up(size, power / divisions);
}

// ---- Frees

void Model::free(Address address) {
  if (address == 0) return;
  Block& block = block_at(address);
  const bool is_small = range_at(address).is_small;
  count(numbers_.allocated, is_small, -static_cast<int64_t>(block.size));
  count(numbers_.used_blocks, is_small, -1);
  if (block.uses.empty()) return complete(address);
  begin_waiting(address, is_captured_call(block));
}

// The block is cached from now on [core 10.2].
void Model::complete(Address address) {
  Range& range = range_at(address);
  Block& block = block_at(address);
  const bool is_small = range.is_small;
  count(numbers_.active, is_small, -static_cast<int64_t>(block.size));
  count(numbers_.requested, is_small, -static_cast<int64_t>(block.requested));
  count(numbers_.active_blocks, is_small, -1);
  block.state = State::kCached;
  if (!block.has_ended || is(Fault::kStampOfEnded)) block.stamps[block.user] = clock_;
  block.has_ended = false;
  merge(range);
}

void Model::record_stream(Address address, Stream stream) {
  Block& block = block_at(address);
  if (stream == block.user && !block.has_ended) return;
  auto use = std::find_if(block.uses.begin(), block.uses.end(),
                          [&](const Use& u) { return u.stream == stream; });
  const bool is_new = use == block.uses.end();
  if (is_new) use = block.uses.insert(use, {stream, false});
  use->is_captured = is_captured_call(block) && (is_new || use->is_captured) && is_captured(stream);
}

// ---- Pools and captures [core 17]

PoolId Model::pool_of(Stream stream) const {
  for (const Route& route : routes_)
    if (!route.only || *route.only == stream) return route.id;
  return {};
}

bool Model::is_captured(Stream stream) {
  CaptureInfo info;
  driver_.capture_info(0, stream, &info);
  return info.capturing;
}

// Whether a call of this stream belongs to a capture; before R10 any routing counts as one.
bool Model::is_capturing(Stream stream) {
  if (options_.is_2_11) return !routes_.empty();
  return captures_ > 0 && is_captured(stream);
}

// Whether a call for the block belongs to a capture. The call counts as one of the block's stream; a stream that
// has ended takes part in no capture.
bool Model::is_captured_call(const Block& block) {
  return block.has_ended ? is_routing_a_capture() : is_capturing(block.user);
}

// Whether any call may.
bool Model::may_be_capturing() const { return options_.is_2_11 ? !routes_.empty() : captures_ > 0; }

// ---- What is compared

void Model::count(Counts& counts, bool is_small, int64_t amount) {
  counts[0].add(amount);
  counts[is_small ? 1 : 2].add(amount);
}

void Model::count_reserved(const Range& range, int64_t bytes) {
  reserved_ += static_cast<uint64_t>(bytes);
  count(numbers_.reserved, range.is_small, bytes);
}

Picture Model::picture() const {
  Picture picture{{}, clock_, waited_, finished_};
  for (const Range& range : ranges_)
    for (const Block& block : range.blocks)
      picture.blocks.push_back({block.begin, block.size, block.state,
                                block.has_user() ? block.user : 0,
                                block.is_free() ? block.stamps : Stamps()});
  return picture;
}

}  // namespace cachalot::policy_model
