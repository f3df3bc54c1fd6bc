// SPDX-License-Identifier: MIT OR Apache-2.0
// Private pools and routing [core 17], capture marks (R10).
#include "alloc/native/hold.h"
#include "base/reserve.h"

namespace cachalot {

void DeviceAllocator::pool_create(PoolId id, PoolOptions options) {
  const Hold hold(*this);
  pools_.create(id, std::move(options));
}

void DeviceAllocator::pool_begin(PoolId id, PoolFilter filter) {
  const Hold hold(*this);
  pools_.begin_routing(id, std::move(filter));
}

void DeviceAllocator::pool_end(PoolId id, std::optional<Stream>) {
  const ContextId context = recorder_.capture_context(ContextLevel::kAll);
  Hold hold(*this);
  // First, as in the reference: the call settles frees also where no routing is to be ended (R20).
  if (settings_.graph_capture_record_stream_reuse) {
    pending_.forget_captures_of(id);
    if (rules_.completes_frees_at_routing_end) pending_.flush_deferred_frees(context, id);
  }
  const PoolRoute ended = pools_.end_routing(id);  // destroyed after the lock is released
  hold.let_go();
}

void DeviceAllocator::pool_release(PoolId id) {
  const Hold hold(*this);
  pools_.release(id);
}

void DeviceAllocator::pool_set_use_on_oom(PoolId id, bool use) {
  const Hold hold(*this);
  pools_.set_use_on_oom(id, use);
}

void DeviceAllocator::pool_set_no_split(PoolId id) {
  const Hold hold(*this);
  pools_.set_no_split(id);
}

int DeviceAllocator::pool_use_count(PoolId id) {
  const std::lock_guard guard(lock_);
  return pools_.use_count(id);
}

// [core 17.13]
bool DeviceAllocator::pool_has_live(PoolId id, const std::vector<Address>& addresses) {
  const Hold hold(*this);
  const PrivatePool* pool = pools_.find(id);
  if (!pool) throw_invalid_argument("Could not find pool of id");
  std::set<Address> live;
  for (const auto& [address, segment] : heap_.segments()) {
    if (segment->pool->owner != pool) continue;
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUsed)) live.insert(b->address);
    }
  }
  return live == std::set<Address>(addresses.begin(), addresses.end());
}

void DeviceAllocator::capture_begin() {
  const Hold hold(*this);
  captures_.begin();
}

void DeviceAllocator::capture_end() {
  const Hold hold(*this);
  captures_.end();
}

}  // namespace cachalot
