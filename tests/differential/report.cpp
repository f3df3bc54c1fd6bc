// SPDX-License-Identifier: MIT OR Apache-2.0
#include "report.h"

#include <cinttypes>
#include <cstdio>
#include <memory>

namespace cachalot::differential {
namespace {

struct SnapshotDeleter {
  void operator()(cachalot_snapshot* snapshot) const { cachalot_snapshot_destroy(snapshot); }
};
using Snapshot = std::unique_ptr<cachalot_snapshot, SnapshotDeleter>;

// A transparent struct that the library is to fill.
template <typename Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof value;
  return value;
}

std::string numbers_of(const cachalot_stat& stat) {
  return decimal(stat.current) + " " + decimal(stat.peak) + " " + decimal(stat.allocated) + " " +
         decimal(stat.freed);
}

std::string name_of(cachalot_pool_id pool) {
  return decimal(pool.first) + "," + decimal(pool.second);
}

// %.17g: enough to tell any two numbers apart.
std::string full(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

void report_stat(Transcript& out, const std::string& name, const cachalot_stat& stat) {
  out.add("= " + name + " " + numbers_of(stat));
}

void report_stats_by_kind(Transcript& out, const std::string& name,
                          const cachalot_stat_array& stats) {
  report_stat(out, name + ".all", stats.all);
  report_stat(out, name + ".small_pool", stats.small_pool);
  report_stat(out, name + ".large_pool", stats.large_pool);
}

void report_counters(Transcript& out, const cachalot_stats& stats) {
  out.add("= counters retries " + decimal(stats.num_alloc_retries) + " ooms " +
          decimal(stats.num_ooms) + " syncs " + decimal(stats.num_sync_all_streams) +
          " device_alloc " + decimal(stats.num_device_alloc) + " device_free " +
          decimal(stats.num_device_free) + " max_split " + decimal(stats.max_split_size));
}

void report_pool_stats(Script& script) {
  size_t count = 0;
  if (!script.worked(cachalot_pool_stats_count(script.allocator(), 0, &count, script.error())))
    return;
  for (size_t i = 0; i < count; i++) {
    auto row = sized<cachalot_pool_stats>();
    if (!script.worked(cachalot_pool_stats_at(script.allocator(), 0, i, &row, script.error())))
      return;
    report_stats_by_kind(script.transcript(),
                         "reserved_bytes_by_private_pools." + name_of(row.pool),
                         row.reserved_bytes);
  }
}

Snapshot take_snapshot(Script& script, const cachalot_snapshot_options& options) {
  cachalot_snapshot* snapshot = nullptr;
  script.worked(cachalot_snapshot_take(script.allocator(), &options, &snapshot, script.error()));
  return Snapshot(snapshot);
}

// A context is the number of the operation that it was captured in.
std::string context_mark(const Script& script, uint64_t context) {
  if (!script.log.context) return "";
  return context == 0 ? " no line" : " line " + decimal(context);
}

const char* name_of_state(int32_t state) {
  if (state == CACHALOT_BLOCK_ALLOCATED) return "allocated";
  return state == CACHALOT_BLOCK_PENDING_FREE ? "pending" : "free";
}

void report_segment(Script& script, const cachalot_segment_row& row) {
  const std::string counter = script.log.counter ? " counter " + decimal(row.number) : "";
  script.transcript().add("# seg " + hex(row.address) + " " + decimal(row.total_size) + " " +
                          hex(row.stream) + (row.is_large != 0 ? " large" : " small") +
                          (row.is_expandable != 0 ? " expandable" : "") + " pool " +
                          name_of(row.pool) + " requested " + decimal(row.requested_size) +
                          " allocated " + decimal(row.allocated_size) + " active " +
                          decimal(row.active_size) + counter + context_mark(script, row.context));
}

void report_block(Script& script, const cachalot_block_row& row) {
  script.transcript().add("# blk " + decimal(row.size) + " " + decimal(row.requested_size) + " " +
                          name_of_state(row.state) + context_mark(script, row.context));
}

void report_settings_line(Transcript& out, const cachalot_settings& settings, const char* config) {
  std::string line = std::string("# set string \"") + config + "\" max_split " +
                     decimal(static_cast<int64_t>(settings.max_split_size)) + " gc " +
                     full(settings.garbage_collection_threshold) + " expandable " +
                     decimal(settings.expandable_segments) + " threads " +
                     decimal(settings.pinned_num_register_threads) + " release_lock " +
                     decimal(settings.release_lock_on_cudamalloc) + " host_register " +
                     decimal(settings.pinned_use_cuda_host_register) + " reuse " +
                     decimal(settings.graph_capture_record_stream_reuse) + " round";
  for (const uint64_t divisions : settings.roundup_power2_divisions)
    line += " " + decimal(divisions);
  line += " # large_segment " + decimal(settings.large_segment_size) + " non_split_rounding " +
          decimal(settings.max_non_split_rounding_size) + " background " +
          decimal(settings.pinned_use_background_threads) + " fraction " +
          full(settings.per_process_memory_fraction) + " reserve_segment " +
          decimal(settings.pinned_reserve_segment_size_mb);
  out.add(std::move(line));
}

void report_newer_settings(Transcript& out, const cachalot_settings& settings) {
  out.add("# throw_on_cudamalloc_oom " + decimal(settings.throw_on_cudamalloc_oom) +
          " pinned_free_catch_all " + decimal(settings.pinned_free_catch_all));
  out.add("# max_round_threshold " + decimal(settings.pinned_max_round_threshold) +
          " max_cached_size " + decimal(settings.pinned_max_cached_size));
}

}  // namespace

void report_stats(Script& script) {
  auto stats = sized<cachalot_stats>();
  if (!script.worked(cachalot_get_stats(script.allocator(), 0, &stats, script.error()))) return;
  Transcript& out = script.transcript();
  report_stats_by_kind(out, "allocation", stats.allocation);
  report_stats_by_kind(out, "segment", stats.segment);
  report_stats_by_kind(out, "active", stats.active);
  report_stats_by_kind(out, "inactive_split", stats.inactive_split);
  report_stats_by_kind(out, "allocated_bytes", stats.allocated_bytes);
  report_stats_by_kind(out, "reserved_bytes", stats.reserved_bytes);
  report_stats_by_kind(out, "active_bytes", stats.active_bytes);
  report_stats_by_kind(out, "inactive_split_bytes", stats.inactive_split_bytes);
  report_stats_by_kind(out, "requested_bytes", stats.requested_bytes);
  report_stat(out, "oversize_allocations", stats.oversize_allocations);
  report_stat(out, "oversize_segments", stats.oversize_segments);
  report_counters(out, stats);
  if (script.release() < CACHALOT_RELEASE_2_15) return;
  out.add("= rejections " + decimal(stats.num_oom_rejections));
  report_pool_stats(script);
}

void report_snapshot(Script& script, cachalot_pool_id pool) {
  auto options = sized<cachalot_snapshot_options>();
  options.pool = pool;
  options.without_history = 1;
  const Snapshot snapshot = take_snapshot(script, options);
  const size_t count = cachalot_snapshot_segment_count(snapshot.get());
  for (size_t i = 0; i < count; i++) {
    auto segment = sized<cachalot_segment_row>();
    if (!script.worked(cachalot_snapshot_segment(snapshot.get(), i, &segment))) return;
    report_segment(script, segment);
    for (size_t j = 0; j < segment.block_count; j++) {
      auto block = sized<cachalot_block_row>();
      const size_t index = segment.first_block + j;
      if (!script.worked(cachalot_snapshot_block(snapshot.get(), index, &block))) return;
      report_block(script, block);
    }
  }
}

void report_history(Script& script) {
  const Snapshot snapshot = take_snapshot(script, sized<cachalot_snapshot_options>());
  const size_t count = cachalot_snapshot_entry_count(snapshot.get(), 0);
  for (size_t i = 0; i < count; i++) {
    auto entry = sized<cachalot_trace_entry>();
    if (!script.worked(cachalot_snapshot_entry(snapshot.get(), 0, i, &entry))) return;
    script.transcript().add(std::string("# trace ") + cachalot_action_name(entry.action) + " " +
                            hex(entry.address) + " " + decimal(entry.size) + " " +
                            hex(entry.stream) + context_mark(script, entry.context) +
                            metadata_marks(script, entry));
  }
}

void report_settings(Script& script) {
  const Snapshot snapshot = take_snapshot(script, sized<cachalot_snapshot_options>());
  if (snapshot == nullptr) return;
  auto settings = sized<cachalot_settings>();
  if (!script.worked(cachalot_snapshot_settings(snapshot.get(), &settings))) return;
  report_settings_line(script.transcript(), settings, cachalot_snapshot_config(snapshot.get()));
  if (script.release() >= CACHALOT_RELEASE_2_15)
    report_newer_settings(script.transcript(), settings);
}

}  // namespace cachalot::differential
