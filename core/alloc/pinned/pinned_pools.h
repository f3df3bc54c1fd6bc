// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools of pinned memory: the default one, and those of captures into graphs [pinned 6].
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/config/rules.h"
#include "alloc/heap/hash_order.h"
#include "alloc/pinned/pinned_cache.h"
#include "alloc/pinned/pinned_queue.h"
#include "alloc/pools/pool_route.h"
#include "base/mutex.h"

namespace cachalot {

// Note [Pinned blocks of graphs]
// Rationale: a graph that was captured copies from the same blocks at each launch. A block that a captured copy uses
// must not serve anybody else for as long as the graph may be launched.
// Approach: requests of a capture are routed to a pool with classes and a queue of its own. A block that was handed
// out to a captured stream, and that some stream then uses, is lost when it is freed: the reference never hands it out
// again, not even when its pool has ended. Its memory goes with the allocator.
//   A pool ends when it has no user, no block and no request under way. What it counted then counts for the default
// pool. Its object serves the next pool, because a free that comes twice, on two threads, may still look at it.

// The parts of one pool. A block names its pool, so that a free finds the class and the queue that are the block's.
struct PinnedPool {
  // counted_in: see PinnedCache.
  PinnedPool(Driver& driver, const Rules& rules, PinnedEvents& events, Log& log,
             PinnedCache* counted_in)
      : cache(rules, counted_in), waiting(driver, events, log) {}

  PinnedCache cache;
  PinnedQueue waiting;
  std::atomic<uint64_t> blocks{0};    // that were obtained for it and not given back
  std::atomic<uint64_t> requests{0};  // under way
  int users = 0;                      // guarded by the lock of PinnedPools
};

// Owns the pools. The object of one that has ended serves the next one, since a call that names a block twice may look
// at it. Any thread.
class PinnedPools {
 public:
  PinnedPools(Driver& driver, const Rules& rules, Log& log);

  PinnedPool& default_pool() { return default_; }

  // Requests that the filter takes go to the pool, which gets a user.
  void begin(PoolId id, PoolFilter filter);
  void end(PoolId id);
  void release(PoolId id);

  // Keeps a pool for as long as a request is under way: an emptied cache on another thread must not end it between the
  // choice of the pool and the count of the new block.
  class Route {
   public:
    explicit Route(PinnedPool* pool, PoolId id = {}) : pool_(pool), id_(id) {}
    ~Route() {
      if (pool_ != nullptr) pool_->requests--;
    }
    Route(const Route&) = delete;
    Route& operator=(const Route&) = delete;

    PinnedPool* pool() const { return pool_; }
    PoolId id() const { return id_; }

   private:
    PinnedPool* const pool_;
    const PoolId id_;
  };
  // Whether requests are routed to some pool.
  bool is_routing() const { return is_routing_.load(std::memory_order_acquire); }
  // Null: the default pool.
  Route route_of(Stream current_stream);

  // Those without users, in the reference's order.
  std::vector<PinnedPool*> released();
  // Ends those without users that have no block left.
  void end_empty();
  std::vector<PinnedPool*> all();
  void destroy_idle_events(int device) { events_.destroy_idle(device); }

 private:
  // A routing keeps the caller's data until it ends.
  struct RouteTo {
    PoolId id;
    PoolFilter filter;
  };

  // pre: lock_.
  std::unique_ptr<PinnedPool> make();

  Driver& driver_;
  const Rules& rules_;
  Log& log_;
  PinnedEvents events_;
  PinnedPool default_;
  Mutex lock_{LockRank::kPinnedPools};
  std::map<PoolId, std::unique_ptr<PinnedPool>> pools_;
  std::vector<std::unique_ptr<PinnedPool>> ended_;
  HashOrder<PoolId> without_users_;
  std::vector<RouteTo> routes_;  // the one that began first serves first
  std::atomic<bool> is_routing_{false};
};

}  // namespace cachalot
