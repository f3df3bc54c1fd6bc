// SPDX-License-Identifier: MIT OR Apache-2.0
// Statistics and the memory summary.
#include "cachalot/stats.h"

#include <cstring>

#include "alloc/stats/stats.h"
#include "alloc/tenants/labels.h"
#include "core_of.h"
#include "values.h"

namespace cachalot::capi {
namespace {

constexpr size_t kStatsStart = offsetof(cachalot_stats, allocation);

static_assert(Labels::kMost == CACHALOT_MAX_LABELS);
static_assert(sizeof(cachalot_stat) == sizeof(Stat) && alignof(cachalot_stat) == alignof(Stat));
static_assert(offsetof(cachalot_stat, peak) == offsetof(Stat, peak));
static_assert(offsetof(cachalot_stat, allocated) == offsetof(Stat, allocated));
static_assert(offsetof(cachalot_stat, freed) == offsetof(Stat, freed));
static_assert(sizeof(cachalot_stat_array) == sizeof(StatArray));
static_assert(offsetof(cachalot_stat_array, small_pool) == offsetof(StatArray, small_pool));
static_assert(offsetof(cachalot_stat_array, large_pool) == offsetof(StatArray, large_pool));
static_assert(sizeof(cachalot_stats) == kStatsStart + sizeof(Stats));

#define SAME_PLACE(field) (offsetof(cachalot_stats, field) == kStatsStart + offsetof(Stats, field))
static_assert(SAME_PLACE(segment) && SAME_PLACE(active) && SAME_PLACE(inactive_split));
static_assert(SAME_PLACE(allocated_bytes) && SAME_PLACE(reserved_bytes));
static_assert(SAME_PLACE(active_bytes) && SAME_PLACE(inactive_split_bytes));
static_assert(SAME_PLACE(requested_bytes) && SAME_PLACE(oversize_allocations));
static_assert(SAME_PLACE(oversize_segments) && SAME_PLACE(num_alloc_retries));
static_assert(SAME_PLACE(num_ooms) && SAME_PLACE(num_sync_all_streams));
static_assert(SAME_PLACE(num_device_alloc) && SAME_PLACE(num_device_free));
static_assert(SAME_PLACE(max_split_size) && SAME_PLACE(num_oom_rejections));
#undef SAME_PLACE

cachalot_stats write_stats(const Stats& stats) {
  cachalot_stats out;
  out.struct_size = sizeof out;
  std::memcpy(reinterpret_cast<char*>(&out) + kStatsStart, &stats, sizeof stats);
  return out;
}

Stats read_stats(const cachalot_stats& in) {
  Stats stats;
  std::memcpy(&stats, reinterpret_cast<const char*>(&in) + kStatsStart, sizeof stats);
  return stats;
}

template <class To, class From>
To same_layout(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

uint64_t bytes_or_0(cachalot_allocator* allocator, int32_t device, StatArray Stats::*statistic,
                    int64_t Stat::*value) {
  uint64_t bytes = 0;
  guard(nullptr, [&] {
    const Stats stats = core_of(allocator).stats(device);
    bytes = static_cast<uint64_t>((stats.*statistic).all.*value);
  });
  return bytes;
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_get_stats(cachalot_allocator* allocator, int32_t device,
                                   cachalot_stats* out_stats, cachalot_error* error) {
  return guard(error, [&] {
    write_struct(out_stats, write_stats(core_of(allocator).stats(device)), "out_stats");
  });
}

cachalot_status cachalot_reset_peak_stats(cachalot_allocator* allocator, int32_t device,
                                          cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).reset_peak_stats(device); });
}

cachalot_status cachalot_reset_accumulated_stats(cachalot_allocator* allocator, int32_t device,
                                                 cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).reset_accumulated_stats(device); });
}

uint64_t cachalot_memory_allocated(cachalot_allocator* allocator, int32_t device) {
  return bytes_or_0(allocator, device, &Stats::allocated_bytes, &Stat::current);
}

uint64_t cachalot_max_memory_allocated(cachalot_allocator* allocator, int32_t device) {
  return bytes_or_0(allocator, device, &Stats::allocated_bytes, &Stat::peak);
}

uint64_t cachalot_memory_reserved(cachalot_allocator* allocator, int32_t device) {
  return bytes_or_0(allocator, device, &Stats::reserved_bytes, &Stat::current);
}

uint64_t cachalot_max_memory_reserved(cachalot_allocator* allocator, int32_t device) {
  return bytes_or_0(allocator, device, &Stats::reserved_bytes, &Stat::peak);
}

uint64_t cachalot_memory_active(cachalot_allocator* allocator, int32_t device) {
  return bytes_or_0(allocator, device, &Stats::active_bytes, &Stat::current);
}

uint64_t cachalot_max_memory_active(cachalot_allocator* allocator, int32_t device) {
  return bytes_or_0(allocator, device, &Stats::active_bytes, &Stat::peak);
}

cachalot_status cachalot_memory_summary(cachalot_allocator* allocator, int32_t device,
                                        int32_t abbreviated, char* buffer, size_t capacity,
                                        size_t* out_length, cachalot_error* error) {
  return guard(error, [&] {
    const bool is_short = read_flag(abbreviated, "abbreviated");
    Allocator& core = core_of(allocator);
    write_text(buffer, capacity, out_length,
               memory_summary(core.stats(device), device, is_short, core.rules().texts));
  });
}

cachalot_status cachalot_stats_at(const cachalot_stats* stats, int32_t release, size_t index,
                                  const char** out_name, int64_t* out_value) {
  return guard(nullptr, [&] {
    const cachalot_stats in = read_options(&require(stats, "stats"), "stats");
    const char*& name = require(out_name, "out_name");
    int64_t& value = require(out_value, "out_value");
    const auto names = stat_names(rules_of(read_release(release)).has_rejection);
    const StatName& row = row_at(names, index, "statistic");
    value = stat_value(read_stats(in), row);
    name = row.name;
  });
}

cachalot_status cachalot_pool_stats_count(cachalot_allocator* allocator, int32_t device,
                                          size_t* out_count, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require(out_count, "out_count") = core.pool_stats(device).size();
  });
}

cachalot_status cachalot_pool_stats_at(cachalot_allocator* allocator, int32_t device, size_t index,
                                       cachalot_pool_stats* out_stats, cachalot_error* error) {
  return guard(error, [&] {
    const auto rows = core_of(allocator).pool_stats(device);
    const auto& [pool, reserved_bytes] = row_at(rows, index, "pool");
    const cachalot_pool_stats row{sizeof row, write_pool_id(pool),
                                  same_layout<cachalot_stat_array>(reserved_bytes)};
    write_struct(out_stats, row, "out_stats");
  });
}

cachalot_status cachalot_label_stats_count(cachalot_allocator* allocator, int32_t device,
                                           size_t* out_count, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require(out_count, "out_count") = core.label_stats(device).size();
  });
}

cachalot_status cachalot_label_stats_at(cachalot_allocator* allocator, int32_t device, size_t index,
                                        cachalot_label_stats* out_stats, cachalot_error* error) {
  return guard(error, [&] {
    const auto rows = core_of(allocator).label_stats(device);
    const LabelStats& label = row_at(rows, index, "label");
    cachalot_label_stats row{.struct_size = sizeof row,
                             .allocation = same_layout<cachalot_stat>(label.allocation),
                             .allocated_bytes = same_layout<cachalot_stat>(label.allocated_bytes)};
    label.label->copy(row.label, sizeof row.label - 1);
    write_struct(out_stats, row, "out_stats");
  });
}
