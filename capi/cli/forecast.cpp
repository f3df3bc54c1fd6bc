// SPDX-License-Identifier: MIT OR Apache-2.0
#include "forecast.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "failure.h"
#include "run.h"

namespace cachalot::cli {
namespace {

// The blocks that are served, as a trace of their own: with a free that is completed late where work is not known
// to be done.
class ServedTrace {
 public:
  ServedTrace(const cachalot_trace_info& info, FreeRule rule) : rule_(rule) {
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
        return complete_frees();
      case CACHALOT_ACTION_CONTEXT_END:
        complete_frees();
        add("x,0,0,0,%d\n", event.device);
        return live_.clear();
      default:
        return;
    }
  }

  std::string take() {
    complete_frees();
    return std::move(text_);
  }

 private:
  struct Block {
    uint64_t address;
    uint64_t size;
    int device;
  };

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
    live_.insert_or_assign(event.address, block);
    live_bytes_ += block.size;
    add('a', block);
  }

  void give_back(const cachalot_trace_event& event) {
    const auto found = live_.find(event.address);
    if (found == live_.end()) return;
    const Block block = found->second;
    live_.erase(found);
    live_bytes_ -= block.size;
    add('q', block);
    if (rule_ != FreeRule::kEvent) return add('c', block);
    waiting_.push_back(block);
    waiting_bytes_ += block.size;
    if (waiting_bytes_ > live_bytes_ / 4) complete_frees();
  }

  void complete_frees() {
    for (const Block& block : waiting_) add('c', block);
    waiting_.clear();
    waiting_bytes_ = 0;
  }

  const FreeRule rule_;
  std::string text_;
  uint64_t next_address_ = uint64_t{1} << 40;
  std::unordered_map<uint64_t, Block> live_;
  std::vector<Block> waiting_;
  uint64_t live_bytes_ = 0;
  uint64_t waiting_bytes_ = 0;
};

struct Text {
  std::string text;
  size_t at = 0;
};

int64_t read_text(void* user_data, void* buffer, size_t capacity) {
  auto& input = *static_cast<Text*>(user_data);
  const size_t count = std::min(capacity, input.text.size() - input.at);
  std::memcpy(buffer, input.text.data() + input.at, count);
  input.at += count;
  return static_cast<int64_t>(count);
}

TraceHandle parse(std::string text) {
  Text input{std::move(text)};
  cachalot_trace* trace = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_trace_read(read_text, &input, &trace, &error), error);
  return TraceHandle(trace);
}

double mean_ns(const CallSum& sum) {
  const int64_t own = sum.cost_ns - sum.wait_ns;
  return sum.calls == 0 ? 0 : static_cast<double>(own) / static_cast<double>(sum.calls);
}

}  // namespace

Forecast forecast(const cachalot_trace_info& info, const std::vector<cachalot_trace_event>& events,
                  const std::string& config, FreeRule rule) {
  ServedTrace served(info, rule);
  for (const cachalot_trace_event& event : events) served.see(event);
  const TraceHandle trace = parse(served.take());
  ReplayCall call;
  call.config = config;
  const ReplayHandle replay = replay_trace(trace.get(), call);
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
  return std::max<int64_t>(
      0, requests.cost_ns + returns.cost_ns - waits - static_cast<int64_t>(stays));
}

}  // namespace cachalot::cli
