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
// to be done. Each context has an allocator of its own, so it is a device there.
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
        if (Context* const context = find(event)) complete_frees(context);
        return;
      case CACHALOT_ACTION_CONTEXT_END:
        return end(event);
      default:
        return;
    }
  }

  std::string take() {
    for (Context& context : contexts_) complete_frees(&context);
    return std::move(text_);
  }

 private:
  struct Block {
    uint64_t address;
    uint64_t size;
    size_t number;  // of its context
  };
  struct Context {
    int device = 0;
    uint64_t name = 0;
    std::unordered_map<uint64_t, Block> live;
    std::vector<Block> waiting;  // for work
    uint64_t live_bytes = 0;
    uint64_t waiting_bytes = 0;
    bool has_ended = false;    // and nothing was obtained since
    bool is_end_left = false;  // to be written
  };

  Context* find(const cachalot_trace_event& event) {
    const auto found = std::find_if(contexts_.begin(), contexts_.end(), [&](const auto& context) {
      return context.device == event.device && context.name == event.driver_context;
    });
    return found != contexts_.end() ? &*found : nullptr;
  }

  // Takes the place of one of the program's own that has ended. Null: there are more than the program's allocators can be.
  Context* find_or_add(const cachalot_trace_event& event) {
    if (Context* const found = find(event)) return found;
    const auto ended = std::find_if(contexts_.begin(), contexts_.end(), [](const auto& context) {
      return context.has_ended && context.name != 0;
    });
    if (ended == contexts_.end() && contexts_.size() == kMostContexts) return nullptr;
    Context* const context = ended != contexts_.end() ? &*ended : &contexts_.emplace_back();
    context->device = event.device;
    context->name = event.driver_context;
    return context;
  }

  template <class... Values>
  void add(const char* pattern, Values... values) {
    char line[160];
    const int length = std::snprintf(line, sizeof line, pattern, values...);
    text_.append(line, static_cast<size_t>(length));
  }
  void add(char action, const Block& block) {
    add("%c,%" PRIx64 ",%" PRIu64 ",0,%zu\n", action, block.address, block.size, block.number);
  }

  void add_end(const Context* context) { add("x,0,0,0,%zu\n", number_of(context)); }

  size_t number_of(const Context* context) const {
    return static_cast<size_t>(context - contexts_.data());
  }

  // Under kEvent the address may still wait for work: to the replay it is another block.
  void obtain(const cachalot_trace_event& event) {
    Context* const context = find_or_add(event);
    if (context == nullptr) return;
    const Block block{next_address_ += 512, event.size, number_of(context)};
    context->has_ended = false;
    if (std::exchange(context->is_end_left, false)) add_end(context);
    context->live.insert_or_assign(event.address, block);
    context->live_bytes += block.size;
    add('a', block);
  }

  void give_back(const cachalot_trace_event& event) {
    Context* const context = find(event);
    if (context == nullptr) return;
    const auto found = context->live.find(event.address);
    if (found == context->live.end()) return;
    const Block block = found->second;
    context->live.erase(found);
    context->live_bytes -= block.size;
    add('q', block);
    if (rule_ != FreeRule::kEvent) return add('c', block);
    context->waiting.push_back(block);
    context->waiting_bytes += block.size;
    if (context->waiting_bytes > std::max(kLeastLeash, context->live_bytes / 4))
      complete_frees(context);
  }

  void end(const cachalot_trace_event& event) {
    Context* const context = find(event);
    if (context == nullptr || context->has_ended) return;
    complete_frees(context);
    // Before an end that the program asks for, memory is given back, by a call for each segment. Else it goes with the
    // context: an end that nothing follows is left out.
    const bool is_asked_for = event.size != 0;
    if (is_asked_for) add_end(context);
    *context = {.device = context->device,
                .name = context->name,
                .has_ended = true,
                .is_end_left = !is_asked_for};
  }

  void complete_frees(Context* context) {
    for (const Block& block : context->waiting) add('c', block);
    context->waiting.clear();
    context->waiting_bytes = 0;
  }

  static constexpr size_t kMostContexts = 64;  // of a trace's devices

  const FreeRule rule_;
  std::vector<Context> contexts_;
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
  const cachalot_replay_result result = result_of(replay.get());
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
