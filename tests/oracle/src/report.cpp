// SPDX-License-Identifier: MIT OR Apache-2.0
#include "report.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDAAllocatorConfig.h>

#include <map>
#include <string>

#include "context.h"
#include "output.h"
#include "release.h"
#include "verbosity.h"

namespace oracle {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using std::to_string;

constexpr const char* kActions[] = {
    "alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
    "segment_map", "segment_unmap",  "snapshot",       "oom",           "annotate"};

void report_stat(const std::string& name, const Stat& stat) {
  line("= " + name + " " + to_string(stat.current) + " " + to_string(stat.peak) + " " +
       to_string(stat.allocated) + " " + to_string(stat.freed));
}

void report_stat(const std::string& name, const StatArray& stats) {
  report_stat(name + ".all", stats[0]);
  report_stat(name + ".small_pool", stats[1]);
  report_stat(name + ".large_pool", stats[2]);
}

void report_counters(const c10::CachingDeviceAllocator::DeviceStats& stats) {
  line("= counters retries " + to_string(stats.num_alloc_retries) + " ooms " +
       to_string(stats.num_ooms) + " syncs " + to_string(stats.num_sync_all_streams) +
       " device_alloc " + to_string(stats.num_device_alloc) + " device_free " +
       to_string(stats.num_device_free) + " max_split " + to_string(stats.max_split_size));
}

std::string pool_name(const c10::MempoolId_t& id) {
  return to_string(id.first) + "," + to_string(id.second);
}

void report_private_pools([[maybe_unused]] const c10::CachingDeviceAllocator::DeviceStats& stats) {
#if SINCE(13)
  const auto& unordered = stats.reserved_bytes_by_private_pools;
  for (auto& [id, stat] : std::map(unordered.begin(), unordered.end())) {
    report_stat("reserved_bytes_by_private_pools." + pool_name(id), stat);
  }
#endif
}

// The texts and the pool that a history entry carries.
std::string metadata_suffix(const cca::TraceEntry& entry) {
  if (!verbosity.metadata) return "";
  std::string suffix = " metadata \"" + entry.user_metadata_ + "\"";
#if SINCE(15)
  suffix += " internal \"" + entry.internal_metadata_ + "\"";
#endif
  return suffix + " pool " + pool_name(entry.mempool_);
}

std::string event_text(const cca::TraceEntry& entry) {
  return std::string(kActions[entry.action_]) + " " + hex(entry.addr_) + " " +
         to_string(entry.size_) + " " + hex(entry.stream_);
}

void report_segment(const cca::SegmentInfo& segment) {
  std::string text = "# seg " + hex(segment.address) + " " + to_string(segment.total_size) + " " +
                     hex(segment.stream) + (segment.is_large ? " large" : " small");
  if (segment.is_expandable) text += " expandable";
  text += " pool " + pool_name(segment.owner_private_pool_id) + " requested " +
          to_string(segment.requested_size) + " allocated " + to_string(segment.allocated_size) +
          " active " + to_string(segment.active_size);
  if (verbosity.counter) text += " counter " + to_string(segment.registration_counter);
  line(text + context_suffix(segment.context_when_allocated));
}

void report_block(const cca::BlockInfo& block) {
  const char* state = block.allocated ? "allocated" : block.active ? "pending" : "free";
  line("# blk " + to_string(block.size) + " " + to_string(block.requested_size) + " " + state +
       context_suffix(block.context_when_allocated));
}

std::string decimal(double value) {
  char text[64];
  snprintf(text, sizeof text, "%.17g", value);
  return text;
}

using Generic = c10::CachingAllocator::AcceleratorAllocatorConfig;
using Cuda = cca::CUDAAllocatorConfig;

// The settings that a snapshot leaves out.
std::string global_settings() {
  return "# large_segment " + to_string(Generic::large_segment_size()) + " non_split_rounding " +
         to_string(Generic::max_non_split_rounding_size()) + " background " +
         to_string(Generic::pinned_use_background_threads()) + " fraction " +
         decimal(Cuda::per_process_memory_fraction()) + " reserve_segment " +
         to_string(Cuda::pinned_reserve_segment_size_mb());
}

}  // namespace

void report_statistics() {
  const auto stats = cca::getDeviceStats(0);
  report_stat("allocation", stats.allocation);
  report_stat("segment", stats.segment);
  report_stat("active", stats.active);
  report_stat("inactive_split", stats.inactive_split);
  report_stat("allocated_bytes", stats.allocated_bytes);
  report_stat("reserved_bytes", stats.reserved_bytes);
  report_stat("active_bytes", stats.active_bytes);
  report_stat("inactive_split_bytes", stats.inactive_split_bytes);
  report_stat("requested_bytes", stats.requested_bytes);
  report_stat("oversize_allocations", stats.oversize_allocations);
  report_stat("oversize_segments", stats.oversize_segments);
  report_counters(stats);
#if SINCE(12)
  line("= rejections " + to_string(stats.num_oom_rejections));
#endif
  report_private_pools(stats);
}

void report_segments(const cca::SnapshotInfo& snapshot) {
  for (const auto& segment : snapshot.segments) {
    report_segment(segment);
    for (const auto& block : segment.blocks) report_block(block);
  }
}

void report_event(const cca::TraceEntry& entry) {
  line("T " + event_text(entry) + metadata_suffix(entry));
}

void report_history(const cca::SnapshotInfo& snapshot) {
  for (const auto& entry : snapshot.device_traces.at(0)) {
    line("# trace " + event_text(entry) + context_suffix(entry.context_) + metadata_suffix(entry));
  }
}

void report_settings(const cca::AllocatorConfigInfo& config) {
  std::string text = "# set string \"" + config.last_allocator_settings + "\" max_split " +
                     to_string(static_cast<int64_t>(config.max_split_size)) + " gc " +
                     decimal(config.garbage_collection_threshold) + " expandable " +
                     to_string(config.expandable_segments) + " threads " +
                     to_string(config.pinned_num_register_threads) + " release_lock " +
                     to_string(config.release_lock_on_malloc) + " host_register " +
                     to_string(config.pinned_use_host_register) + " reuse " +
                     to_string(config.graph_capture_record_stream_reuse) + " round";
  for (size_t divisions : config.roundup_power2_divisions) text += " " + to_string(divisions);
  line(text + " " + global_settings());
#if SINCE(12)
  line("# throw_on_cudamalloc_oom " + to_string(Cuda::throw_on_cudamalloc_oom()) +
       " pinned_free_catch_all " + to_string(Cuda::pinned_free_catch_all()));
#endif
#if SINCE(13)
  line("# max_round_threshold " + to_string(config.max_round_threshold) + " max_cached_size " +
       to_string(config.max_cached_size));
#endif
}

}  // namespace oracle
