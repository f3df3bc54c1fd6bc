// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/device_stats.h"

namespace cachalot {
namespace {

void move(StatArray& stat, bool is_small, int64_t by) {
  if (by >= 0) {
    stat.increase(is_small, by);
  } else {
    stat.decrease(is_small, -by);
  }
}

}  // namespace

// A node of a map of its own, which can be moved into the right one without memory.
void DeviceStats::reserve_pool_row(PoolId pool) {
  if (!counts_pools_ || pool.is_default() || pool_rows_.contains(pool)) return;
  PoolRows made;
  made.try_emplace(pool);
  next_row_ = made.extract(made.begin());
}

void DeviceStats::count_reserved(PoolId pool, bool is_small, int64_t bytes) {
  // Wraps around for a negative number, which is the subtraction.
  reserved_ += static_cast<uint64_t>(bytes);
  move(stats_.reserved_bytes, is_small, bytes);
  if (!counts_pools_ || pool.is_default()) return;
  auto row = pool_rows_.find(pool);
  // The row made before the driver was asked: nothing may fail behind the driver's answer.
  if (row == pool_rows_.end()) row = pool_rows_.insert(std::move(next_row_)).position;
  move(row->second, is_small, bytes);
}

void DeviceStats::segment_obtained(PoolId pool, bool is_small, uint64_t bytes, bool is_oversize) {
  count_reserved(pool, is_small, static_cast<int64_t>(bytes));
  stats_.segment.increase(is_small, 1);
  if (is_oversize) stats_.oversize_segments.increase(1);
  stats_.num_device_alloc++;
}

void DeviceStats::segment_released(PoolId pool, bool is_small, uint64_t bytes, bool is_oversize) {
  count_reserved(pool, is_small, -static_cast<int64_t>(bytes));
  stats_.segment.decrease(is_small, 1);
  if (is_oversize) stats_.oversize_segments.decrease(1);
}

// Pages are no segment: `segment` and `oversize_segments` stay [exp 4.6].
void DeviceStats::pages_mapped(PoolId pool, bool is_small, uint64_t bytes) {
  count_reserved(pool, is_small, static_cast<int64_t>(bytes));
  stats_.num_device_alloc++;
}

void DeviceStats::pages_unmapped(PoolId pool, bool is_small, uint64_t bytes) {
  count_reserved(pool, is_small, -static_cast<int64_t>(bytes));
}

template <class Function>
void DeviceStats::for_each(Function function) {
  stats_.segment.for_each(function);
  stats_.reserved_bytes.for_each(function);
  for (auto& [pool, row] : pool_rows_) row.for_each(function);
  function(stats_.oversize_segments);
}

void DeviceStats::reset_peaks() {
  for_each([](Stat& stat) { stat.reset_peak(); });
}

// [stats 4.1] All counters of events begin again; `max_split_size` is an option and stays.
void DeviceStats::reset_accumulated() {
  for_each([](Stat& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = stats_.num_device_free = stats_.num_oom_rejections = 0;
}

}  // namespace cachalot
