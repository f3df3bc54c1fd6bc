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
    wait_for_waiting_holes();
    return give_back_pool(id);
  }
  if (!is_routing_a_capture()) {
    wait_for_events({});
    wait_for_waiting_holes();
    for (const bool is_small : {false, true}) give_back_blocks({}, is_small);
    soft_limit_ = 0;
  }
  for (const PoolId pool : releasable()) give_back_pool(pool);
}

void Model::give_back_pool(PoolId id) {
  for (const bool is_small : {true, false}) give_back_blocks(id, is_small);
  forget_if_empty(id);
}

void Model::forget_if_empty(PoolId id) {
  for (const Range& range : ranges_)
    if (range.pool == id) return;
  std::erase_if(pools_, [&](const Pool& pool) { return pool.id == id; });
  unused_.erase(id, id.hash());
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
  give_back_empty_ranges(
      [&](const Range& range) { return range.pool == id && range.is_small == is_small; });
}

// All whole pages of a cached block that are not pinned, run by run from the back. A range without pages
// goes, too.
void Model::give_back(Address address) {
  const Block block = block_at(address);
  const auto runs = unpinned(round_up(block.begin, options_.page_size),
                             round_down(block.end(), options_.page_size));
  if (runs.empty()) return;
  wait_before_release(address);
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    for (Address at = run->first; at < run->second; at += options_.page_size)
      release(take_page(at));
    make_hole(run->first, run->second, State::kHole);
  }
  give_back_range(range_at(address).begin);
}

void Model::trim(uint64_t keep_bytes) {
  if (may_be_capturing()) return;
  look_at_events();
  look_at_waiting_holes();
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
  give_back_empty_ranges(
      [&](const Range& range) { return range.pool.is_default() || is_releasable(range.pool); });
  for (const PoolId pool : releasable()) forget_if_empty(pool);
  look_at_waiting_holes();
}

bool Model::is_releasable(PoolId id) const {
  return std::any_of(pools_.begin(), pools_.end(), [&](const Pool& pool) {
    return pool.id == id && pool.uses == 0 && (!pool.is_pinned || is(Fault::kReleasesPinned));
  });
}

std::vector<PoolId> Model::releasable() const {
  std::vector<PoolId> ids = unused_.keys();
  std::erase_if(ids, [&](PoolId id) { return !is_releasable(id); });
  return ids;
}

Model::Pool* Model::pool(PoolId id) {
  for (Pool& pool : pools_)
    if (pool.id == id) return &pool;
  return nullptr;
}

// Or joins it.
void Model::pool_create(PoolId id, bool is_pinned) {
  Pool* const known = pool(id);
  if (!known) return pools_.push_back({id, 1, is_pinned});
  if (known->uses == 0) throw Failure{Status::kInvalidState};
  known->uses++;
  if (is_pinned) known->is_pinned = true;
}

void Model::pool_set_pinned(PoolId id, bool is_pinned) {
  Pool* const known = pool(id);
  if (!known) throw Failure{Status::kInvalidState};
  known->is_pinned = is_pinned;
}

void Model::pool_begin(PoolId id, std::optional<Stream> only) {
  pool_create(id, false);
  routes_.insert(routes_.begin(), {id, only});
}

void Model::pool_end(PoolId id) {
  std::erase_if(routes_, [&](const Route& route) { return route.id == id; });
}

void Model::pool_release(PoolId id) {
  Pool* const known = pool(id);
  if (known && --known->uses == 0) unused_.insert(id, id.hash());
}

}  // namespace cachalot::policy_model
