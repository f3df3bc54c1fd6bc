// SPDX-License-Identifier: MIT OR Apache-2.0
// The statistics of a device that only slow paths move: segments, reserved bytes, calls of the driver,
// failures. (counters.h has the statistics that hits move.) pre: the device's lock.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/stats/stats.h"

namespace cachalot {

// Owns the rows. Invariant: the bytes of all pools' rows and those of the default pools add up to
// `reserved_`.
class DeviceStats {
 public:
  using PoolRows = std::map<PoolId, StatArray>;

  // counts_pools: reserved bytes are counted by private pool too (R40).
  DeviceStats(bool counts_pools, int64_t max_split_size) : counts_pools_(counts_pools) {
    stats_.max_split_size = max_split_size;
  }

  // T: bytes obtained from the driver.
  uint64_t reserved() const { return reserved_; }
  const Stats& stats() const { return stats_; }
  // A private pool has a row from its first bytes on, also when they are given back.
  const PoolRows& pool_rows() const { return pool_rows_; }

  // Makes the row of a pool, so that the counts below cannot fail. Throws std::bad_alloc.
  void reserve_pool_row(PoolId pool);
  void segment_obtained(PoolId pool, bool is_small, uint64_t bytes, bool is_oversize);
  void segment_released(PoolId pool, bool is_small, uint64_t bytes, bool is_oversize);
  void pages_mapped(PoolId pool, bool is_small, uint64_t bytes);
  void pages_unmapped(PoolId pool, bool is_small, uint64_t bytes);
  // Memory is about to go back to the driver, or has just gone.
  void count_device_free() { stats_.num_device_free++; }
  void count_retry() { stats_.num_alloc_retries++; }
  void count_rejection() { stats_.num_oom_rejections++; }
  void count_out_of_memory() { stats_.num_ooms++; }
  void count_sync_of_all_streams() { stats_.num_sync_all_streams++; }

  void reset_peaks();
  void reset_accumulated();

 private:
  void count_reserved(PoolId pool, bool is_small, int64_t bytes);
  template <class Function>
  void for_each(Function function);

  const bool counts_pools_;
  uint64_t reserved_ = 0;
  Stats stats_;
  PoolRows pool_rows_;
  // At most one is made ahead: the device's lock is held from reserve_pool_row() to the count.
  PoolRows::node_type next_row_;  // of a pool without one
};

}  // namespace cachalot
