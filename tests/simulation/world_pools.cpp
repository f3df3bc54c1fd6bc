// SPDX-License-Identifier: MIT OR Apache-2.0
// Steps with private pools and captures.
#include <algorithm>

#include "sized.h"
#include "world.h"

namespace cachalot_test {

int32_t World::use_count(const Pool& pool) {
  int32_t count = 0;
  begin_call();
  const cachalot_status status =
      cachalot_pool_use_count(allocator_, pool.device, pool.id, &count, &error_);
  return worked(status) ? count : 0;
}

// Pools whose use count is 0 cannot be used again.
void World::forget_dead_pools() {
  std::erase_if(pools_, [this](const Pool& pool) {
    return !pool.is_routed && pool.capture == 0 && use_count(pool) <= 0;
  });
}

void World::pool_create() {
  if (pools_.size() >= kMostPools) forget_dead_pools();
  if (pools_.size() >= kMostPools) return;
  Pool pool = {{}, actor().device, false, 0};
  require(cachalot_pool_new_id(allocator_, 0, &pool.id, &error_));
  auto source = sized<cachalot_pool_source>();
  source.user_data = this;
  source.allocate = [](void* self, uint64_t size, int32_t device, cachalot_stream) {
    World& world = *static_cast<World*>(self);
    if (world.releases_lock_) world.interlude();
    uint64_t& bytes = world.source_bytes_[static_cast<size_t>(device)];
    if (bytes + size > uint64_t{128} << 20) return cachalot_address{0};
    bytes += size;
    const cachalot_address address = world.next_source_address_;
    world.next_source_address_ += (size + 0x1fffff) & ~uint64_t{0x1fffff};
    return address;
  };
  source.free = [](void* self, cachalot_address address, uint64_t size, int32_t device,
                   cachalot_stream) {
    World& world = *static_cast<World*>(self);
    world.model_.require_unused(address, size, "given back to its source");
    world.source_bytes_[static_cast<size_t>(device)] -= size;
  };
  auto options = sized<cachalot_pool_options>();
  options.flags = static_cast<uint32_t>(choices_.below(4));
  if (choices_.one_in(3)) options.flags |= CACHALOT_POOL_WHOLE_BLOCKS;
  if (choices_.one_in(4)) options.source = &source;
  begin_call();
  if (worked(cachalot_pool_create(allocator_, pool.device, pool.id, &options, &error_)))
    pools_.push_back(pool);
}

void World::begin(Pool& pool, int32_t kind) {
  auto route = sized<cachalot_pool_route>();
  route.kind = kind;
  route.stream = any_stream();
  route.capture_id = pool.capture;
  route.predicate = [](void*, cachalot_stream stream) { return stream == 0 ? 1 : 0; };
  begin_call();
  if (!worked(cachalot_pool_begin(allocator_, pool.device, pool.id, &route, &error_))) return;
  pool.is_routed = true;
  if (is_asleep(pool)) report_defect("requests are routed to a pool that sleeps");
}

void World::end_routing(Pool& pool) {
  begin_call();
  if (worked(cachalot_pool_end(allocator_, pool.device, pool.id, &error_))) pool.is_routed = false;
}

void World::pool_begin() {
  static constexpr int32_t kKinds[] = {CACHALOT_ROUTE_THIS_THREAD, CACHALOT_ROUTE_ALL,
                                       CACHALOT_ROUTE_NONE, CACHALOT_ROUTE_STREAM,
                                       CACHALOT_ROUTE_PREDICATE};
  if (!pools_.empty()) begin(choices_.pick(pools_), choices_.pick(kKinds));
}

void World::pool_end() {
  if (!pools_.empty()) end_routing(choices_.pick(pools_));
}

// Below 0 the count would keep the pool's memory for good, as in the reference.
void World::pool_release() {
  if (pools_.empty()) return;
  const Pool& pool = choices_.pick(pools_);
  if (use_count(pool) <= 0) return;
  begin_call();
  require(cachalot_pool_release(allocator_, pool.device, pool.id, &error_));
  if (SleepingPool* const asleep = sleeping_.find(pool.key())) settle(*asleep);
}

void World::pool_flags() {
  if (pools_.empty()) return;
  const Pool& pool = choices_.pick(pools_);
  const int32_t use = choices_.one_in(2) ? 1 : 0;
  begin_call();
  worked(cachalot_pool_set_use_on_oom(allocator_, pool.device, pool.id, use, &error_));
  if (choices_.one_in(4))
    worked(cachalot_pool_set_no_split(allocator_, pool.device, pool.id, &error_));
  int32_t is_equal = 0;
  worked(cachalot_pool_has_live(allocator_, pool.device, pool.id, nullptr, 0, &is_equal, &error_));
}

void World::pool_empty() {
  if (pools_.empty()) return;
  const Pool& pool = choices_.pick(pools_);
  begin_call();
  const cachalot_status status =
      choices_.one_in(2)
          ? cachalot_pool_empty(allocator_, pool.device, pool.id, &error_)
          : cachalot_pool_empty_on_stream(allocator_, pool.device, pool.id, any_stream(), &error_);
  if (worked(status) && is_asleep(pool)) report_defect("a pool that sleeps is emptied");
}

// ---- Captures

void World::capture_begin() {
  if (captures_ >= 2 || pools_.size() >= kMostPools + 2) return;
  Pool pool = {{}, actor().device, false, 0};
  require(cachalot_pool_new_id(allocator_, 1, &pool.id, &error_));
  pool.capture = ++last_capture_;
  captures_++;
  model_.forget_uses();  // from now on frees may wait for the capture
  machine_->begin_capture(pool.device, any_stream(), pool.capture);
  begin_call();
  require(cachalot_capture_begin(allocator_, pool.device, &error_));
  begin(pool, choices_.one_in(2) ? CACHALOT_ROUTE_CAPTURE : CACHALOT_ROUTE_ALL);
  pools_.push_back(pool);
}

void World::capture_node() {
  const int32_t device = actor().device;
  switch (choices_.below(4)) {
    case 0:
      if (captures_ > 0) machine_->fork(device, any_stream(), any_stream());
      return;
    case 1:
      return machine_->join(device, any_stream(), any_stream());
    default:
      return machine_->add_node(device, any_stream());
  }
}

void World::end_capture(Pool& pool) {
  machine_->end_capture(pool.device, pool.capture);
  pool.capture = 0;
  captures_--;
  begin_call();
  worked(cachalot_capture_end(allocator_, pool.device, &error_));
  if (pool.is_routed) end_routing(pool);
}

void World::capture_end() {
  for (Pool& pool : pools_)
    if (pool.capture != 0 && choices_.one_in(2)) return end_capture(pool);
}

}  // namespace cachalot_test
