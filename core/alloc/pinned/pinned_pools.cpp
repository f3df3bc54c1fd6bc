// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/pinned_pools.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/reserve.h"

namespace cachalot {

PinnedPools::PinnedPools(Driver& driver, const Rules& rules, Log& log)
    : driver_(driver),
      rules_(rules),
      log_(log),
      events_(driver),
      default_(driver, rules, events_, log, nullptr) {}

std::unique_ptr<PinnedPool> PinnedPools::make() {
  PinnedCache* const counted_in = rules_.counts_pinned_pools_apart ? nullptr : &default_.cache;
  if (ended_.empty())
    return std::make_unique<PinnedPool>(driver_, rules_, events_, log_, counted_in);
  std::unique_ptr<PinnedPool> pool = std::move(ended_.back());
  ended_.pop_back();
  return pool;
}

// A begin that fails because the pool is routed to already has made it a user, as in the reference [pinned 6.1].
void PinnedPools::begin(PoolId id, PoolFilter filter) {
  const std::lock_guard lock(lock_);
  const auto found = pools_.find(id);
  if (found != pools_.end() && found->second->users == 0)
    throw_invalid_state("the pool of pinned memory was released and cannot be joined");
  reserve_one_more(routes_);
  PinnedPool& pool =
      found != pools_.end() ? *found->second : *pools_.emplace(id, make()).first->second;
  pool.users++;
  const auto is_same = [&](const RouteTo& route) { return route.id == id; };
  if (std::any_of(routes_.begin(), routes_.end(), is_same))
    throw_invalid_state("beginAllocateToPool: already recording to mempool_id");
  routes_.push_back({id, std::move(filter)});
  is_routing_ = true;
}

void PinnedPools::end(PoolId id) {
  const std::lock_guard lock(lock_);
  const auto route = std::find_if(routes_.begin(), routes_.end(),
                                  [&](const RouteTo& each) { return each.id == id; });
  if (route == routes_.end())
    throw_invalid_state("endAllocatePool: not currently recording to mempool_id");
  routes_.erase(route);
  is_routing_ = !routes_.empty();
}

// The reference lists pools without users by a hash table, into which a pool comes with its last release [pinned 6.4].
void PinnedPools::release(PoolId id) {
  const std::lock_guard lock(lock_);
  const auto pool = pools_.find(id);
  if (pool == pools_.end())
    throw_invalid_argument("there is no pool of pinned memory with this id");
  if (pool->second->users == 0)
    throw_invalid_state("the pool of pinned memory was released more often than it was used");
  if (pool->second->users == 1) without_users_.insert(id, id.hash());
  pool->second->users--;
}

// A routing may outlive its pool, which ends when its last user has gone and the cache was emptied [pinned 6.5].
PinnedPools::Route PinnedPools::route_of(Stream current_stream) {
  const std::lock_guard lock(lock_);
  for (const RouteTo& route : routes_) {
    if (!route.filter(current_stream)) continue;
    const auto pool = pools_.find(route.id);
    if (pool == pools_.end())
      throw_invalid_state("the pool of pinned memory that requests are routed to has gone");
    pool->second->requests++;
    return Route(pool->second.get(), route.id);
  }
  return Route(nullptr);
}

std::vector<PinnedPool*> PinnedPools::released() {
  const std::lock_guard lock(lock_);
  std::vector<PinnedPool*> pools;
  for (const PoolId id : without_users_.keys()) pools.push_back(pools_.at(id).get());
  return pools;
}

// Nothing may fail once the figures were taken: there is room for the object before.
void PinnedPools::end_empty() {
  const std::lock_guard lock(lock_);
  without_users_.retain([&](PoolId id) {
    const auto pool = pools_.find(id);
    if (pool->second->blocks != 0 || pool->second->requests != 0) return true;
    reserve_one_more(ended_);
    default_.cache.take_stats_of(pool->second->cache);
    ended_.push_back(std::move(pool->second));
    pools_.erase(pool);
    return false;
  });
}

std::vector<PinnedPool*> PinnedPools::all() {
  const std::lock_guard lock(lock_);
  std::vector<PinnedPool*> pools = {&default_};
  for (const auto& [id, pool] : pools_) pools.push_back(pool.get());
  return pools;
}

}  // namespace cachalot
