// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces: how they are read, their rows, and how a history is written as one.
#include "cachalot/trace.h"

#include <string>

#include "callback.h"
#include "guard.h"
#include "trace_handles.h"
#include "values.h"

namespace cachalot::capi {

// Trace format 2 came later.
template <>
inline constexpr size_t kFirstSize<cachalot_trace_info> = offsetof(cachalot_trace_info, format);
template <>
inline constexpr size_t kFirstSize<cachalot_trace_event> = offsetof(cachalot_trace_event, cost_ns);

ReadBytes read_through(cachalot_read_fn read, void* user_data) {
  require(read, "read");
  return [read, user_data](char* buffer, size_t capacity) {
    const int64_t count = read(user_data, buffer, capacity);
    if (count < 0 || static_cast<uint64_t>(count) > capacity)
      throw Error(Status::kCallback,
                  format("the read function returned %lld", static_cast<long long>(count)));
    return static_cast<size_t>(count);
  };
}

WriteBytes write_through(cachalot_write_fn write, void* user_data) {
  require(write, "write");
  return [write, user_data](std::string_view bytes) {
    const int32_t result =
        call_caller([&] { return write(user_data, bytes.data(), bytes.size()); });
    if (result != 0)
      throw Error(Status::kCallback, format("the write function returned %d", result));
  };
}

namespace {

const Trace& core_of(const cachalot_trace* trace) { return require(trace, "trace").core; }

cachalot_trace_info write_info(const Trace& trace) {
  const auto release = trace.header.release();
  return {.struct_size = sizeof(cachalot_trace_info),
          .workload = trace.header.workload.c_str(),
          .torch = trace.header.torch.c_str(),
          .config = trace.header.config.c_str(),
          .device_total = trace.header.device_total,
          .event_count = trace.events.size(),
          .stat_count = trace.header.stats.size(),
          .release = release ? static_cast<int32_t>(*release) : CACHALOT_RELEASE_DEFAULT,
          .device_count = trace.device_count,
          .recorder = trace.header.recorder.c_str(),
          .format = trace.header.format,
          .driver_version = trace.header.driver,
          .command = trace.header.command.c_str(),
          .process_id = trace.header.pid,
          .parent_process_id = trace.header.parent,
          .start_us = trace.header.start_us};
}

cachalot_trace_event write_event(const Trace& trace, size_t index) {
  const TraceEvent& event = row_at(trace.events, index, "event");
  const EventDetail detail =
      trace.details.empty() ? EventDetail{.freed_on = event.stream} : trace.details[index];
  return {.struct_size = sizeof(cachalot_trace_event),
          .action = event.action_number,
          .device = event.device,
          .address = event.address,
          .size = event.size,
          .stream = event.stream,
          .pool = write_pool_id(trace.pool_of(event)),
          .time_us = event.time_us,
          .context = event.context,
          .cost_ns = detail.cost_ns,
          .wait_ns = detail.wait_ns,
          .thread = detail.thread,
          .freed_on = detail.freed_on,
          .driver_context = detail.driver_context,
          .entry = detail.entry};
}

cachalot_trace_frame write_frame(const Trace& trace, ContextId context, size_t index) {
  const RecordedStack* const stack = trace.stack_of(context);
  if (stack == nullptr)
    throw_invalid_argument(format("the trace tells no stack of context %llx",
                                  static_cast<unsigned long long>(context)));
  const Address address = row_at(stack->frames, index, "frame");
  const RecordedModule* const module = trace.module_at(*stack, address);
  return {.struct_size = sizeof(cachalot_trace_frame),
          .address = address,
          .file_offset = module == nullptr ? 0 : address - module->begin + module->offset,
          .path = module == nullptr ? "" : module->path.c_str()};
}

std::vector<RecordedStat> recorded_stats(const cachalot_stats& stats, Release release) {
  std::vector<RecordedStat> rows;
  const char* name = nullptr;
  int64_t value = 0;
  const auto number = static_cast<int32_t>(release);
  for (size_t i = 0; cachalot_stats_at(&stats, number, i, &name, &value) == CACHALOT_OK; i++)
    rows.push_back({name, value});
  return rows;
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_trace_read(cachalot_read_fn read, void* user_data,
                                    cachalot_trace** out_trace, cachalot_error* error) {
  return guard(error, [&] {
    cachalot_trace*& out = require(out_trace, "out_trace");
    out = new cachalot_trace(read_trace(read_through(read, user_data)));
  });
}

void cachalot_trace_destroy(cachalot_trace* trace) { delete live_or_null(trace); }

cachalot_status cachalot_trace_get_info(const cachalot_trace* trace,
                                        cachalot_trace_info* out_info) {
  return guard(nullptr, [&] { write_struct(out_info, write_info(core_of(trace)), "out_info"); });
}

cachalot_status cachalot_trace_get_event(const cachalot_trace* trace, size_t index,
                                         cachalot_trace_event* out_event) {
  return guard(nullptr,
               [&] { write_struct(out_event, write_event(core_of(trace), index), "out_event"); });
}

cachalot_status cachalot_trace_get_frame(const cachalot_trace* trace, uint64_t context,
                                         size_t index, cachalot_trace_frame* out_frame) {
  return guard(nullptr, [&] {
    write_struct(out_frame, write_frame(core_of(trace), context, index), "out_frame");
  });
}

cachalot_status cachalot_trace_context_text(const cachalot_trace* trace, uint64_t context,
                                            char* buffer, size_t capacity, size_t* out_length) {
  return guard(nullptr, [&] {
    write_text(buffer, capacity, out_length, core_of(trace).context_text(context));
  });
}

cachalot_status cachalot_trace_get_stat(const cachalot_trace* trace, size_t index,
                                        const char** out_name, int64_t* out_value) {
  return guard(nullptr, [&] {
    const RecordedStat& stat = row_at(core_of(trace).header.stats, index, "recorded statistic");
    const char*& name = require(out_name, "out_name");
    require(out_value, "out_value") = stat.value;
    name = stat.name.c_str();
  });
}

cachalot_status cachalot_trace_write(const cachalot_snapshot* snapshot, const cachalot_stats* stats,
                                     const char* workload, cachalot_write_fn write, void* user_data,
                                     cachalot_error* error) {
  return guard(error, [&] {
    const Snapshot& core = require(snapshot, "snapshot").core;
    TraceHeader header;
    header.workload = workload != nullptr ? workload : "";
    header.recorder = std::string("cachalot ") + cachalot_version();
    header.torch = release_name(core.release);
    header.config = core.settings.config;
    header.warm_up = 0;
    if (stats != nullptr) header.stats = recorded_stats(read_options(stats, "stats"), core.release);
    write_trace(header, core.traces, write_through(write, user_data));
  });
}
