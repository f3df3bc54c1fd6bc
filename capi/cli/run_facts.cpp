// SPDX-License-Identifier: MIT OR Apache-2.0
#include "run_facts.h"

#include "failure.h"
#include "numbers.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

Json peak_json(const Peak& peak) { return {{"bytes", peak.bytes}, {"event", peak.event}}; }

Json figures_of(const cachalot_replay_result& result) {
  return {
      {"peak_requested", result.peak_requested}, {"peak_allocated", result.peak_allocated},
      {"peak_reserved", result.peak_reserved},   {"allocations", result.allocations},
      {"out_of_memory", result.out_of_memory},   {"driver_allocations", result.driver_allocations},
      {"driver_frees", result.driver_frees},     {"segments_peak", result.segments_peak}};
}

}  // namespace

Json run_facts(const cachalot_trace* trace, const ReplayCall& call, const Timeline& timeline) {
  const cachalot_trace_info info = info_of(trace);
  return {{"workload", info.workload},
          {"command", info.command},
          {"recorder", info.recorder},
          {"config", timeline.config},
          {"release", release_text(timeline.release)},
          {"policy", call.policy.policy == CACHALOT_POLICY_SERVING ? "serving" : "pytorch"},
          {"capacity", timeline.capacity},
          {"devices", timeline.device_count},
          {"events", timeline.event_count},
          {"figures", figures_of(timeline.result)},
          {"peaks",
           {{"requested", peak_json(timeline.requested)},
            {"allocated", peak_json(timeline.allocated)},
            {"reserved", peak_json(timeline.reserved)}}}};
}

std::string stream_text(cachalot_stream stream) {
  return stream == CACHALOT_STREAM_ALL ? "all" : hexadecimal(stream);
}

std::string pair_text(cachalot_pool_id pool) {
  return std::to_string(pool.first) + ":" + std::to_string(pool.second);
}

std::string pool_text(cachalot_pool_id pool) {
  return pool.first == 0 && pool.second == 0 ? "default" : pair_text(pool);
}

std::string owner_text(const Owner& owner, const Timeline& timeline) {
  const std::string pool = pool_text(owner.pool);
  return (timeline.device_count > 1 ? "device " + std::to_string(owner.device) + ", " : "") +
         "stream " + stream_text(owner.stream) +
         (pool == "default" ? ", default pools" : ", pool " + pool);
}

}  // namespace cachalot::cli
