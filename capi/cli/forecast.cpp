// SPDX-License-Identifier: MIT OR Apache-2.0
#include "forecast.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "failure.h"

namespace cachalot::cli {
namespace {

// The blocks that are served, as a trace of their own: with a free that is completed late where work is not known
// to be done.
class ServedTrace {
 public:
  ServedTrace(const cachalot_trace_info& info, FreeRule rule)
      : rule_(rule), devices_(static_cast<size_t>(info.device_count)) {
    add("# {\"format\": 2, \"device_total\": %" PRIu64 "}\n", info.device_total);
  }

  void see(const cachalot_trace_event& event) {
    switch (event.action) {
      case CACHALOT_ACTION_ALLOC:
      case CACHALOT_ACTION_LIVE_AT_BEGIN:
        if (is_served(event)) obtain(event);
        return;
      case CACHALOT_ACTION_FREE_REQUESTED:
        return give_back(event);
      case CACHALOT_ACTION_CONTEXT_WAIT:
        if (event.driver_context == 0) complete_frees(event.device);
        return;
      case CACHALOT_ACTION_CONTEXT_END:
        complete_frees(event.device);
        device_of(event.device) = {.has_ended = true};
        return;
      default:
        return;
    }
  }

  std::string take() {
    for (size_t i = 0; i < devices_.size(); i++) complete_frees(static_cast<int>(i));
    return std::move(text_);
  }

 private:
  struct Block {
    uint64_t address;
    uint64_t size;
    int device;
  };
  struct Device {
    std::unordered_map<uint64_t, Block> live;
    std::vector<Block> waiting;  // for work
    uint64_t live_bytes = 0;
    uint64_t waiting_bytes = 0;
    bool has_ended = false;  // the context, and nothing was obtained since
  };

  Device& device_of(int device) { return devices_[static_cast<size_t>(device)]; }

  template <class... Values>
  void add(const char* pattern, Values... values) {
    char line[160];
    const int length = std::snprintf(line, sizeof line, pattern, values...);
    text_.append(line, static_cast<size_t>(length));
  }
  void add(char action, const Block& block) {
    add("%c,%" PRIx64 ",%" PRIu64 ",0,%d\n", action, block.address, block.size, block.device);
  }

  // Under kEvent the address may still wait for work: to the replay it is another block.
  void obtain(const cachalot_trace_event& event) {
    const Block block{next_address_ += 512, event.size, event.device};
    Device& device = device_of(event.device);
    // The memory goes with the context, without a call for each segment, so the last end is left out.
    if (std::exchange(device.has_ended, false)) add("x,0,0,0,%d\n", event.device);
    device.live.insert_or_assign(event.address, block);
    device.live_bytes += block.size;
    add('a', block);
  }

  void give_back(const cachalot_trace_event& event) {
    Device& device = device_of(event.device);
    const auto found = device.live.find(event.address);
    if (found == device.live.end()) return;
    const Block block = found->second;
    device.live.erase(found);
    device.live_bytes -= block.size;
    add('q', block);
    if (rule_ != FreeRule::kEvent) return add('c', block);
    device.waiting.push_back(block);
    device.waiting_bytes += block.size;
    if (device.waiting_bytes > std::max(kLeastLeash, device.live_bytes / 4))
      complete_frees(event.device);
  }

  void complete_frees(int number) {
    Device& device = device_of(number);
    for (const Block& block : device.waiting) add('c', block);
    device.waiting.clear();
    device.waiting_bytes = 0;
  }

  const FreeRule rule_;
  std::vector<Device> devices_;
  std::string text_;
  uint64_t next_address_ = uint64_t{1} << 40;
};

constexpr int64_t kOwnNs = 75;  // of a call that is served

double mean_ns(const CallSum& sum) {
  const int64_t own = sum.cost_ns - sum.wait_ns;
  return sum.calls == 0 ? 0 : static_cast<double>(own) / static_cast<double>(sum.calls);
}

}  // namespace

ForecastedProgram::ForecastedProgram(const cachalot_trace_info& info,
                                     const std::vector<cachalot_trace_event>& events,
                                     const RecordingSummary& summary, FreeRule rule) {
  ServedTrace served(info, rule);
  for (const cachalot_trace_event& event : events) served.see(event);
  trace_ = parse_trace(served.take());
  // What is not served has its place on the device too.
  const uint64_t others = summary.block_peak - summary.served_peak;
  if (info.device_total > others) capacity_ = info.device_total - others;
}

Forecast ForecastedProgram::forecast(const std::string& config) const {
  ReplayCall call;
  call.config = config;
  call.capacity = capacity_;
  const ReplayHandle replay = replay_trace(trace_.get(), call);
  cachalot_replay_result result{};
  result.struct_size = sizeof result;
  check(cachalot_replay_get_result(replay.get(), &result));
  return {result.peak_reserved, result.driver_allocations + result.driver_frees,
          result.out_of_memory};
}

int64_t saved_ns(const RecordingSummary& summary, const Forecast& forecast, FreeRule rule) {
  const CallSum& requests = summary.served_requests;
  const CallSum& returns = summary.served_returns;
  const int64_t waits = rule == FreeRule::kWait ? returns.wait_ns : 0;
  const double stays =
      static_cast<double>(forecast.driver_calls) * (mean_ns(requests) + mean_ns(returns)) / 2;
  const auto own = static_cast<int64_t>(requests.calls + returns.calls) * kOwnNs;
  return std::max<int64_t>(
      0, requests.cost_ns + returns.cost_ns - waits - own - static_cast<int64_t>(stays));
}

}  // namespace cachalot::cli
