// SPDX-License-Identifier: MIT OR Apache-2.0
// Private pools and routing (17), capture marks (R10).
#include "alloc/hold.h"
#include "base/reserve.h"

namespace cachalot {

PrivatePool* DeviceAllocator::find_pool(PoolId id) {
  const auto found = pools_.find(id);
  return found == pools_.end() ? nullptr : found->second.get();
}

// For a remark only, so that some may be forgotten: ids that the library gives ascend.
void DeviceAllocator::remember_outlived(PoolId id) {
  constexpr size_t kMost = 10000;
  outlived_.insert(id);
  if (outlived_.size() > kMost) outlived_.erase(outlived_.begin());
}

// U4: the reference still has a pool that is gone here, so from now on the two differ.
void DeviceAllocator::remark_if_outlived(PoolId id) {
  if (outlived_.erase(id) != 0) shared_.differ("U4", "the pool was destroyed when it was empty");
}

// 17.2. A source is for a new pool only; the count has been raised by the time this is noticed.
void DeviceAllocator::create_or_join_pool(PoolId id, std::shared_ptr<PoolSource> source) {
  remark_if_outlived(id);
  PrivatePool* pool = find_pool(id);
  if (!pool) {
    auto made = std::make_unique<PrivatePool>(id);
    made->source = std::move(source);
    made->small.no_split = made->large.no_split = no_split_.contains(id);
    pools_.emplace(id, std::move(made));
    return;
  }
  if (pool->use_count <= 0) throw_invalid_state("the pool was released and can not be joined");
  if (source)
    throw_invalid_state("the pool exists already and can not be given a source of memory");
  pool->use_count++;
}

void DeviceAllocator::release_pool_locked(PoolId id) {
  remark_if_outlived(id);
  PrivatePool* pool = find_pool(id);
  if (!pool) throw_invalid_state("there is no pool with this id");
  if (pool->use_count == 1) releasable_.insert(id, id.hash());
  pool->use_count--;
  if (pool->use_count == 0 && rules_.forgets_no_split) {
    no_split_.erase(id);
    pool->small.no_split = pool->large.no_split = false;
  }
  if (pool->use_count < 0) {
    throw_invalid_state("the pool was released more often than it was used");
  }
}

void DeviceAllocator::pool_create(PoolId id, PoolOptions options) {
  const Hold hold(*this);
  HashOrder<PoolId> use_on_oom;
  std::set<PoolId> no_split;
  if (options.use_on_oom) (use_on_oom = use_on_oom_).insert(id, id.hash());
  if (options.no_split) no_split.insert(id);
  create_or_join_pool(id, std::move(options.source));
  if (options.use_on_oom) use_on_oom_ = std::move(use_on_oom);
  no_split_.merge(no_split);
  if (options.no_split) {
    find_pool(id)->small.no_split = find_pool(id)->large.no_split = true;
  }
}

void DeviceAllocator::pool_begin(PoolId id, PoolFilter filter) {
  const Hold hold(*this);
  reserve_one_more(routes_);  // before the count is raised
  create_or_join_pool(id, nullptr);
  for (const PoolRoute& route : routes_) {
    if (route.id == id) throw_invalid_state("beginAllocateToPool: already recording to mempool_id");
  }
  routes_.push_back({id, std::move(filter)});
  update_duties();
}

void DeviceAllocator::pool_end(PoolId id) {
  const ContextId context = capture_context(ContextLevel::kAll);
  Hold hold(*this);
  // The reference does this before it looks whether there is a routing to end.
  if (settings_.graph_capture_record_stream_reuse) {
    forget_captures_of(id);
    if (rules_.settles_frees_at_routing_end) flush_deferred_frees(context, id);
  }
  const auto route = std::find_if(routes_.begin(), routes_.end(),
                                  [&](const PoolRoute& candidate) { return candidate.id == id; });
  if (route == routes_.end())
    throw_invalid_state("endAllocatePool: not currently recording to mempool_id");
  const PoolRoute ended = std::move(*route);  // its filter is destroyed after the lock is released
  routes_.erase(route);
  update_duties();
  hold.let_go();
}

void DeviceAllocator::pool_release(PoolId id) {
  const Hold hold(*this);
  release_pool_locked(id);
}

void DeviceAllocator::pool_set_use_on_oom(PoolId id, bool use) {
  const Hold hold(*this);
  if (use) {
    use_on_oom_.insert(id, id.hash());
  } else {
    use_on_oom_.erase(id, id.hash());
  }
}

void DeviceAllocator::pool_set_no_split(PoolId id) {
  const Hold hold(*this);
  no_split_.insert(id);
  if (PrivatePool* pool = find_pool(id)) pool->small.no_split = pool->large.no_split = true;
}

int DeviceAllocator::pool_use_count(PoolId id) {
  const std::lock_guard guard(lock_);
  remark_if_outlived(id);
  const PrivatePool* pool = find_pool(id);
  if (!pool) throw_invalid_state("there is no pool with this id");
  return pool->use_count;
}

// 17.13.
bool DeviceAllocator::pool_has_live(PoolId id, const std::vector<Address>& addresses) {
  const Hold hold(*this);
  const PrivatePool* pool = find_pool(id);
  if (!pool) throw_invalid_argument("Could not find pool of id");
  std::set<Address> live;
  for (const auto& [address, segment] : segments_) {
    if (segment->pool->owner != pool) continue;
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUsed)) live.insert(b->address);
    }
  }
  return live == std::set<Address>(addresses.begin(), addresses.end());
}

// Under 2.11 marks change nothing: only the flag that R10 reads stays unset.
void DeviceAllocator::capture_begin() {
  const Hold hold(*this);
  if (!rules_.captures_are_marked) return;
  marked_captures_++;
  update_duties();
}

void DeviceAllocator::capture_end() {
  const Hold hold(*this);
  if (!rules_.captures_are_marked) return;
  if (marked_captures_ == 0) throw_invalid_state("the end of a capture was marked without a begin");
  marked_captures_--;
  update_duties();
}

}  // namespace cachalot
