// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pools/private_pools.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/reserve.h"

namespace cachalot {

// ---- Pools

PrivatePool* PrivatePools::find(PoolId id) const {
  const auto found = pools_.find(id);
  return found == pools_.end() ? nullptr : found->second.get();
}

PrivatePool& PrivatePools::existing(PoolId id) const {
  PrivatePool* const pool = find(id);
  if (!pool) throw_invalid_state("there is no pool with this id");
  return *pool;
}

// As errors name it.
std::string shown_pool_name(PoolId id) {
  return "pool (" + std::to_string(id.first) + ", " + std::to_string(id.second) + ")";
}

// One text for all calls that need a pool's memory.
void require_awake(const PrivatePool& pool) {
  if (!pool.sleep) return;
  throw_invalid_state(shown_pool_name(pool.id) + " sleeps");
}

// Routing to an unknown id creates its pool, so a caller may begin with either call [core 17.2].
void PrivatePools::create_or_join(PoolId id, std::shared_ptr<PoolSource> source) {
  remark_if_outlived(id);
  PrivatePool* pool = find(id);
  if (!pool) {
    auto made = std::make_unique<PrivatePool>(id);
    made->source = std::move(source);
    made->set_no_split(no_split_.contains(id));  // the mark can be older than the pool [core 17.8]
    pools_.emplace(id, std::move(made));
    return;
  }
  if (pool->use_count <= 0) throw_invalid_state("the pool was released and cannot be joined");
  if (source) throw_invalid_state("the pool exists already and cannot be given a source of memory");
  pool->use_count++;
}

// What can fail comes first, so that a pool never exists with half of its options.
void PrivatePools::create(PoolId id, PoolOptions options) {
  HashOrder<PoolId> use_on_oom;
  std::set<PoolId> no_split;
  // A copy, which takes the old table's place once nothing can fail any more.
  if (options.use_on_oom) (use_on_oom = use_on_oom_).insert(id, id.hash());
  if (options.no_split) no_split.insert(id);
  if (const PrivatePool* pool = find(id)) {
    require_awake(*pool);
    if (options.whole_blocks) require_no_memory(*pool);
  }
  create_or_join(id, std::move(options.source));
  if (options.use_on_oom) use_on_oom_ = std::move(use_on_oom);
  no_split_.merge(no_split);
  if (options.no_split) find(id)->set_no_split(true);
  if (options.is_pinned) find(id)->is_pinned = true;
  if (options.whole_blocks) set_whole_blocks(id);
}

void PrivatePools::release(PoolId id) {
  remark_if_outlived(id);
  PrivatePool& pool = existing(id);
  if (pool.use_count == 1) releasable_.insert(id, id.hash());  // can fail, so before the count
  pool.use_count--;
  if (pool.use_count == 0 && rules_.forgets_no_split) {
    no_split_.erase(id);
    pool.set_no_split(false);
  }
  // After the count, which stays below 0 in the reference too [core 17.5].
  if (pool.use_count < 0) {
    throw_invalid_state("the pool was released more often than it was used");
  }
}

int PrivatePools::use_count(PoolId id) {
  remark_if_outlived(id);
  return existing(id).use_count;
}

void PrivatePools::set_pinned(PoolId id, bool is_pinned) {
  PrivatePool& pool = existing(id);
  require_awake(pool);
  pool.is_pinned = is_pinned;
}

// Blocks that are pieces of segments could not be told from whole ones. A request under way is about to
// bring such a segment.
void PrivatePools::require_no_memory(const PrivatePool& pool) {
  if (pool.whole || (!pool.has_segments() && pool.requests_under_way == 0)) return;
  throw_invalid_state("a pool that has memory already cannot be given whole blocks");
}

void PrivatePools::set_whole_blocks(PoolId id) {
  PrivatePool& pool = existing(id);
  require_awake(pool);
  require_no_memory(pool);
  if (!pool.whole) pool.whole.emplace();
}

// The mark is kept for a pool that does not exist yet.
void PrivatePools::set_no_split(PoolId id) {
  no_split_.insert(id);
  if (PrivatePool* pool = find(id)) pool->set_no_split(true);
}

// Not pools that are pinned; one that was released too often keeps its memory (docs/differences.md).
std::vector<PoolId> PrivatePools::releasable() const {
  std::vector<PoolId> ids = releasable_.keys();
  for (const auto& [id, pool] : pools_) {
    if (pool->whole && pool->use_count > 0) ids.push_back(id);
  }
  std::erase_if(ids, [&](PoolId id) { return find(id)->keeps_memory(); });
  return ids;
}

// The reference destroys a pool when its count of driver allocations is 0. Growths and unmappings of
// expandable segments move that count differently (U4), so here a pool goes when it owns nothing.
void PrivatePools::destroy_if_empty(PoolId id) {
  const PrivatePool& pool = *find(id);
  if (pool.use_count != 0) return;
  const bool reference_destroys = pool.driver_allocations == 0;
  if (reference_destroys && !pool.is_empty()) {
    log_.differ("U4", "kept a pool whose blocks are still in use");
  }
  if (!pool.is_empty()) return;
  if (pool.requests_under_way > 0) {
    if (reference_destroys) log_.differ("U21", "kept a pool that a request is under way for");
    return;
  }
  if (!reference_destroys && log_.is_open()) remember_outlived(id);
  pools_.erase(id);
  releasable_.erase(id, id.hash());
}

// Only a line of the log needs these ids, so the oldest may go: ids that the library gives ascend.
void PrivatePools::remember_outlived(PoolId id) {
  constexpr size_t kMost = 10000;
  outlived_.insert(id);
  if (outlived_.size() > kMost) outlived_.erase(outlived_.begin());
}

void PrivatePools::remark_if_outlived(PoolId id) {
  if (outlived_.erase(id) != 0) log_.differ("U4", "the pool was destroyed when it was empty");
}

// ---- Routing

bool PrivatePools::is_routed(PoolId id) const {
  return std::any_of(routes_.begin(), routes_.end(),
                     [&](const PoolRoute& route) { return route.id == id; });
}

// From the newest on, so that a routing inside another one wins [core 17.3].
const PoolId* PrivatePools::route_of(Stream stream) const {
  const auto route = std::find_if(routes_.rbegin(), routes_.rend(),
                                  [&](const PoolRoute& r) { return r.takes(stream); });
  return route == routes_.rend() ? nullptr : &route->id;
}

void PrivatePools::begin_routing(PoolId id, PoolFilter filter) {
  reserve_one_more(routes_);  // before the count is raised
  // The count stays raised after the errors, too [core 17.3]: a caller that is refused has one use to release.
  create_or_join(id, nullptr);
  require_awake(*find(id));
  if (is_routed(id)) throw_invalid_state("beginAllocateToPool: already recording to mempool_id");
  routes_.push_back({id, std::move(filter)});
  flags_.put(kRouting, true);
}

// Gives the route away instead of destroying it: the filter is the caller's code, which may take
// any lock when it goes.
PoolRoute PrivatePools::end_routing(PoolId id) {
  const auto route =
      std::find_if(routes_.begin(), routes_.end(), [&](const PoolRoute& r) { return r.id == id; });
  if (route == routes_.end())
    throw_invalid_state("endAllocatePool: not currently recording to mempool_id");
  PoolRoute ended = std::move(*route);
  routes_.erase(route);
  flags_.put(kRouting, !routes_.empty());
  return ended;
}

// ---- Fallback

void PrivatePools::set_use_on_oom(PoolId id, bool use) {
  if (use) {
    use_on_oom_.insert(id, id.hash());
  } else {
    use_on_oom_.erase(id, id.hash());
  }
}

bool PrivatePools::is_used_on_oom(PoolId id) const {
  const std::vector<PoolId> ids = use_on_oom_.keys();
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace cachalot
