// SPDX-License-Identifier: MIT OR Apache-2.0
// Cached memory on its way back to the driver [policy P12].
#include <algorithm>
#include <tuple>

#include "model.h"

namespace cachalot::policy_model {

// [core 15.2, 15.3]
void Model::empty_cache(PoolId id) {
  if (!id.is_default()) {
    if (!is_releasable(id)) return;
    if (is_routing_a_capture()) throw Failure{Status::kInvalidState};
    wait_for_events(id);
    return give_back_pool(id);
  }
  if (!is_routing_a_capture()) {
    wait_for_events({});
    for (const bool is_small : {false, true}) give_back_blocks({}, is_small);
  }
  for (const PoolId pool : releasable_.keys()) give_back_pool(pool);
}

void Model::give_back_pool(PoolId id) {
  for (const bool is_small : {true, false}) give_back_blocks(id, is_small);
  forget_if_empty(id);
}

void Model::forget_if_empty(PoolId id) {
  for (const Range& range : ranges_)
    if (range.pool == id) return;
  std::erase_if(pools_, [&](const Pool& pool) { return pool.id == id; });
  releasable_.erase(id, id.hash());
}

// By stream, size, range and address.
void Model::give_back_blocks(PoolId id, bool is_small) {
  std::vector<std::tuple<Stream, uint64_t, uint64_t, Address>> cached;
  for (const Range& range : ranges_) {
    if (range.pool != id || range.is_small != is_small) continue;
    for (const Block& block : range.blocks)
      if (block.state == State::kCached)
        cached.emplace_back(range.stream, block.size, order_of(range), block.begin);
  }
  std::sort(cached.begin(), cached.end());
  for (const auto& [stream, size, number, address] : cached) give_back(address);
}

// All whole pages of a cached block. A range without pages goes, too.
void Model::give_back(Address address) {
  const Block block = block_at(address);
  const Address begin = round_up(block.begin, options_.page_size);
  const Address end = round_down(block.end(), options_.page_size);
  if (begin >= end) return;
  wait_before_release(address);
  for (Address at = begin; at < end; at += options_.page_size) driver_.release(0, take_page(at));
  make_hole(begin, end);
  give_back_range(range_at(begin).begin);
}

void Model::trim(uint64_t keep_bytes) {
  if (may_be_capturing()) return;
  look_at_events();
  std::vector<std::tuple<uint64_t, Address>> cached;
  for (const Range& range : ranges_) {
    if (!range.pool.is_default() && !is_releasable(range.pool)) continue;
    for (const Block& block : range.blocks)
      if (block.state == State::kCached) cached.emplace_back(order_of(range), block.begin);
  }
  std::sort(cached.begin(), cached.end());
  for (const auto& [number, address] : cached) {
    if (reserved_ <= keep_bytes) break;
    give_back(address);
  }
  for (const PoolId pool : releasable_.keys()) forget_if_empty(pool);
}

bool Model::is_releasable(PoolId id) const {
  return std::any_of(pools_.begin(), pools_.end(),
                     [&](const Pool& pool) { return pool.id == id && pool.uses == 0; });
}

void Model::pool_create(PoolId id) {
  for (Pool& pool : pools_) {
    if (pool.id != id) continue;
    if (pool.uses == 0) throw Failure{Status::kInvalidState};
    pool.uses++;
    return;
  }
  pools_.push_back({id, 1});
}

void Model::pool_begin(PoolId id, std::optional<Stream> only) {
  pool_create(id);
  routes_.insert(routes_.begin(), {id, only});
}

void Model::pool_end(PoolId id) {
  std::erase_if(routes_, [&](const Route& route) { return route.id == id; });
}

void Model::pool_release(PoolId id) {
  for (Pool& pool : pools_)
    if (pool.id == id && --pool.uses == 0) releasable_.insert(id, id.hash());
}

}  // namespace cachalot::policy_model
