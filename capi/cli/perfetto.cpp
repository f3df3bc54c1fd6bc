// SPDX-License-Identifier: MIT OR Apache-2.0
#include "perfetto.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "entries.h"
#include "held_memory.h"
#include "numbers.h"
#include "run.h"

namespace cachalot::cli {
namespace {

using SortedJson = nlohmann::json;

// Numbers of tracks: each device is one, and the driver's calls are another.
constexpr int32_t kCalls = 1000;

bool changes_memory(int32_t action) {
  switch (action) {
    case CACHALOT_ACTION_ALLOC:
    case CACHALOT_ACTION_FREE_REQUESTED:
    case CACHALOT_ACTION_SEGMENT_ALLOC:
    case CACHALOT_ACTION_SEGMENT_FREE:
    case CACHALOT_ACTION_SEGMENT_MAP:
    case CACHALOT_ACTION_SEGMENT_UNMAP:
    case CACHALOT_ACTION_LIVE_AT_BEGIN:
    case CACHALOT_ACTION_OTHER_ALLOC:
    case CACHALOT_ACTION_OTHER_FREE:
    case CACHALOT_ACTION_CONTEXT_END:
      return true;
    default:
      return false;
  }
}

class PerfettoWriter {
 public:
  PerfettoWriter(const cachalot_trace* trace, Output* output) : trace_(trace), output_(*output) {}

  void write(const cachalot_trace* replayed) {
    output_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    now_us_ = first_time();
    for_each_event(trace_, [this](const cachalot_trace_event& event) { see(event); });
    if (replayed != nullptr) write_reserved(replayed);
    output_.write("\n]}\n");
  }

 private:
  // A recording without times is shown by the numbers of its events.
  int64_t first_time() {
    int64_t first = -1;
    for_each_event(trace_, [&first](const cachalot_trace_event& event) {
      if (first < 0) first = event.time_us;
    });
    has_times_ = first >= 0;
    return has_times_ ? first : -1;
  }

  void see(const cachalot_trace_event& event) {
    if (!has_times_) now_us_++;
    if (event.time_us >= 0) now_us_ = event.time_us;
    held_.see(event);
    name_device(event.device);
    if (changes_memory(event.action)) count(event.device);
    if (event.cost_ns >= 0) show_call(event);
    if (event.action == CACHALOT_ACTION_OOM) show_failure(event);
  }

  // Times are the recorded ones; the order of events in the file means nothing.
  void write_reserved(const cachalot_trace* replayed) {
    HeldMemories held;
    std::map<int32_t, uint64_t> shown;
    for_each_event(replayed, [&](const cachalot_trace_event& event) {
      held.see(event);
      now_us_ = event.time_us;
      count(event.device, "reserved in a replay", held.of(event.device).reserved,
            &shown[event.device]);
    });
  }

  void name_device(int32_t device) {
    if (!devices_.insert(device).second) return;
    put({{"ph", "M"},
         {"pid", device},
         {"name", "process_name"},
         {"args", {{"name", "GPU " + std::to_string(device)}}}});
    shown_.resize(std::max(shown_.size(), static_cast<size_t>(device) + 1));
  }

  // Only what has changed.
  void count(int32_t device) {
    const HeldMemory& held = held_.of(device);
    Shown& shown = shown_[static_cast<size_t>(device)];
    count(device, "requested", held.requested, &shown.requested);
    count(device, "reserved", held.reserved, &shown.reserved);
    count(device, "other memory", held.other, &shown.other);
  }

  void count(int32_t device, const char* name, uint64_t bytes, uint64_t* shown) {
    if (bytes == *shown) return;
    *shown = bytes;
    put({{"ph", "C"},
         {"pid", device},
         {"name", name},
         {"ts", now_us_},
         {"args", {{"bytes", bytes}}}});
  }

  // Its time is that of its end.
  void show_call(const cachalot_trace_event& event) {
    if (threads_.empty())
      put({{"ph", "M"},
           {"pid", kCalls},
           {"name", "process_name"},
           {"args", {{"name", "driver calls"}}}});
    if (threads_.insert(event.thread).second)
      put({{"ph", "M"},
           {"pid", kCalls},
           {"tid", event.thread},
           {"name", "thread_name"},
           {"args", {{"name", "thread " + std::to_string(event.thread)}}}});
    const EntryName& entry = entry_of(static_cast<char>(event.entry));
    const bool returns = event.action == CACHALOT_ACTION_CALL_END;
    const double duration_us = static_cast<double>(event.cost_ns) / 1000;
    SortedJson args = {{"device", event.device}, {"address", hexadecimal(event.address)}};
    if (!returns) args["size"] = event.size;
    if (event.wait_ns >= 0) args["wait_ns"] = event.wait_ns;
    put({{"ph", "X"},
         {"pid", kCalls},
         {"tid", event.thread},
         {"name", returns ? entry.returns : entry.requests},
         {"ts", static_cast<double>(now_us_) - duration_us},
         {"dur", duration_us},
         {"args", std::move(args)}});
  }

  void show_failure(const cachalot_trace_event& event) {
    put({{"ph", "i"},
         {"s", "p"},
         {"pid", event.device},
         {"name", "out of memory"},
         {"ts", now_us_},
         {"args", {{"requested", event.size}, {"device_free", event.address}}}});
  }

  void put(const SortedJson& event) {
    output_.write(is_first_ ? "\n" : ",\n");
    is_first_ = false;
    output_.write(event.dump());
  }

  struct Shown {
    uint64_t requested = 0;
    uint64_t reserved = 0;
    uint64_t other = 0;
  };

  const cachalot_trace* trace_;
  Output& output_;
  bool is_first_ = true;
  bool has_times_ = true;
  int64_t now_us_ = 0;
  HeldMemories held_;
  std::vector<Shown> shown_;  // by device
  std::set<int32_t> devices_;
  std::set<uint64_t> threads_;
};

}  // namespace

void write_perfetto(const cachalot_trace* trace, const cachalot_trace* replayed, Output* output) {
  PerfettoWriter(trace, output).write(replayed);
}

}  // namespace cachalot::cli
