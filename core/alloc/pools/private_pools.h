// SPDX-License-Identifier: MIT OR Apache-2.0
// The private pools of one device, and which requests go to them [core 17]. pre: the device's
// lock, unless a function needs the whole device.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "alloc/config/rules.h"
#include "alloc/heap/hash_order.h"
#include "alloc/pools/private_pool.h"
#include "alloc/sync/slow_path_flags.h"
#include "alloc/trace/log.h"

namespace cachalot {

// Owns the pools, the routes and the marks. A mark belongs to an id, not to a pool, so it can be
// older than the pool and outlive it [core 17.7, 17.8]. Invariants: kRouting is set exactly while
// there is a route; an id is in `releasable_` exactly while its pool exists with a use count of 0
// or less.
class PrivatePools : private SlowPath {
 public:
  PrivatePools(const Rules& rules, const Log& log, SlowPathFlags& flags)
      : rules_(rules), log_(log), flags_(flags) {}

  // ---- Pools
  PrivatePool* find(PoolId id) const;      // null: there is none
  PrivatePool& existing(PoolId id) const;  // throws where there is none
  const std::map<PoolId, std::unique_ptr<PrivatePool>>& all() const { return pools_; }
  // Throws where the pool was released, or exists and a source is given [core 17.2].
  void create_or_join(PoolId id, std::shared_ptr<PoolSource> source);
  void create(PoolId id, PoolOptions options);
  // Ends one use. Throws where there is none.
  void release(PoolId id);
  int use_count(PoolId id);
  void set_no_split(PoolId id);
  void set_pinned(PoolId id, bool is_pinned);  // throws where there is none
  // See Note [Whole blocks]. Throws where there is none, or it has memory.
  void set_whole_blocks(PoolId id);
  // Pools whose memory may be given back, in the reference's order; those in use with whole blocks come last.
  std::vector<PoolId> releasable() const;
  // Destroys a pool of use count 0 that has no memory and no request under way.
  void destroy_if_empty(PoolId id);
  // Logs U4 for a pool that the reference still has: from now on the two differ.
  void remark_if_outlived(PoolId id);

  // How often pools fell asleep and woke. pre: the device's lock.
  SleepCounts& sleep_counts() { return sleep_counts_; }

  // ---- Routing [core 17.3]
  bool is_routed(PoolId id) const;
  // The pool of the newest route that takes the stream; null: there is none.
  const PoolId* route_of(Stream stream) const;
  // Joins the pool, or creates it, and routes to it. pre (here and below): the whole device.
  void begin_routing(PoolId id, PoolFilter filter);
  // Throws where there is no such route. The caller destroys the filter when no lock is held.
  PoolRoute end_routing(PoolId id);

  // ---- Fallback [core 17.7]
  // The order of the pools is that of the reference's table, because the first one that has a block
  // serves.
  void set_use_on_oom(PoolId id, bool use);
  std::vector<PoolId> used_on_oom() const { return use_on_oom_.keys(); }
  bool is_used_on_oom(PoolId id) const;

 private:
  static void require_no_memory(const PrivatePool& pool);
  void remember_outlived(PoolId id);

  const Rules& rules_;
  const Log& log_;
  SlowPathFlags& flags_;
  std::map<PoolId, std::unique_ptr<PrivatePool>> pools_;
  std::vector<PoolRoute> routes_;
  HashOrder<PoolId> use_on_oom_;
  HashOrder<PoolId> releasable_;  // use count 0 or less
  std::set<PoolId> no_split_;
  SleepCounts sleep_counts_;
  std::set<PoolId> outlived_;  // pools that are gone here and never go in the reference (U4)
};

}  // namespace cachalot
