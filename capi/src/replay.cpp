// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays of traces.
#include <cstddef>
#include <string>
#include <utility>

#include "cachalot/trace.h"
#include "guard.h"
#include "replay/script_writer.h"
#include "trace_handles.h"
#include "values.h"

namespace cachalot::capi {

template <>
inline constexpr size_t kFirstSize<cachalot_replay_options> = offsetof(cachalot_replay_options,
                                                                       policy);
template <>
inline constexpr size_t kFirstSize<cachalot_replay_result> = offsetof(cachalot_replay_result,
                                                                      peak_device_bytes);

namespace {

ReplayOptions read_replay_options(const cachalot_replay_options& in) {
  ReplayOptions options;
  if (in.config != nullptr) options.config = in.config;
  if (in.release != CACHALOT_RELEASE_DEFAULT) options.release = read_release(in.release);
  options.expect = read_flag(in.expect, "expect");
  options.capacity = in.capacity;
  options.fraction = in.fraction;
  options.stop_at_out_of_memory = read_flag(in.stop_at_out_of_memory, "stop_at_out_of_memory");
  options.keeps_history = read_flag(in.history, "history");
  options.serving = read_policy_of(in).value_or(ServingOptions{});
  if (in.progress != nullptr)
    options.progress = [progress = in.progress, user_data = in.progress_user_data](uint64_t done,
                                                                                   uint64_t total) {
      return progress(user_data, done, total) == 0;
    };
  if (in.observer != nullptr)
    options.observer = [observer = in.observer, user_data = in.observer_user_data](
                           size_t event, const TraceEntry& entry) {
      const cachalot_trace_entry out = write_trace_entry(entry);
      observer(user_data, event, &out);
    };
  options.event_count = in.event_count;
  return options;
}

ReplayOptions resolve_options(const Trace& trace, const cachalot_replay_options* options) {
  return resolve(trace, read_replay_options(read_options(options)),
                 read_release(CACHALOT_RELEASE_DEFAULT));
}

// Blocks that the recorded program never freed would keep an allocator from ending.
struct DestroyAll {
  void operator()(cachalot_replay* replay) const {
    if (live_or_null(replay->allocator.get())) {
      replay->allocator->core.free_all();
    } else {
      (void)replay->allocator.release();  // a parent's: nothing of it works in a forked child
    }
    delete replay;
  }
};

std::shared_ptr<const std::unordered_map<ContextId, std::string>> texts_of_contexts(
    const Trace& trace) {
  auto texts = std::make_shared<std::unordered_map<ContextId, std::string>>(trace.labels);
  for (const RecordedStack& stack : trace.stacks)
    if (!texts->contains(stack.context))
      texts->emplace(stack.context, trace.context_text(stack.context));
  return texts;
}

// out: shows the replay to its observer.
std::unique_ptr<cachalot_replay, DestroyAll> run(const Trace& trace, const ReplayOptions& options,
                                                 cachalot_replay** out) {
  auto device = std::make_shared<ReplayDevice>(replay_device_options(trace, options));
  std::unique_ptr<cachalot_replay, DestroyAll> done(new cachalot_replay);
  done->allocator = std::make_unique<cachalot_allocator>(new_driver(device),
                                                         replay_allocator_options(options, device));
  *out = done.get();
  done->result = replay(trace, options, &done->allocator->core, device.get());
  done->events = replayed_events(trace, options);
  if (options.keeps_history) done->context_texts = texts_of_contexts(trace);
  return done;
}

Snapshot snapshot_of(const cachalot_replay& replay) {
  if (!replay.context_texts) throw_invalid_state("the replay has kept no history");
  Snapshot snapshot = replay.allocator->core.snapshot(PoolId{}, false);
  snapshot.traces = replay.result.history;
  snapshot.context_texts = replay.context_texts;
  set_contexts(&snapshot);
  return snapshot;
}

cachalot_replay_result write_result(const cachalot_replay& replay) {
  const ReplayResult& result = replay.result;
  return {.struct_size = sizeof(cachalot_replay_result),
          .events = replay.events,
          .allocations = result.allocations,
          .out_of_memory = result.out_of_memory,
          .driver_allocations = result.calls.obtained,
          .driver_frees = result.calls.given_back,
          .segments = result.calls.segments,
          .segments_peak = result.calls.segments_peak,
          .peak_requested = result.peak_requested,
          .peak_allocated = result.peak_allocated,
          .peak_reserved = result.peak_reserved,
          .differing_events = result.differences.count,
          .first_difference = result.differences.first,
          .expected = result.differences.expected.c_str(),
          .actual = result.differences.actual.c_str(),
          .peak_device_bytes = result.calls.peak_device_bytes};
}

cachalot_replay_call write_call(const MemoryCallCount& row) {
  return {.struct_size = sizeof(cachalot_replay_call),
          .function = driver_name(row.call),
          .size = row.size,
          .count = row.count,
          .gap_us = row.gap_us};
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_replay_run(const cachalot_trace* trace,
                                    const cachalot_replay_options* options,
                                    cachalot_replay** out_replay, cachalot_error* error) {
  return guard(error, [&] {
    const Trace& core = require(trace, "trace").core;
    cachalot_replay*& out = require(out_replay, "out_replay");
    out = nullptr;
    try {
      out = run(core, resolve_options(core, options), &out).release();
    } catch (...) {
      out = nullptr;
      throw;
    }
  });
}

void cachalot_replay_destroy(cachalot_replay* replay) {
  if (live_or_null(replay)) DestroyAll()(replay);
}

cachalot_status cachalot_replay_get_result(const cachalot_replay* replay,
                                           cachalot_replay_result* out_result) {
  return guard(nullptr, [&] {
    write_struct(out_result, write_result(require(replay, "replay")), "out_result");
  });
}

size_t cachalot_replay_call_count(const cachalot_replay* replay) {
  return live_or_null(replay) ? replay->result.call_counts.size() : 0;
}

cachalot_status cachalot_replay_get_call(const cachalot_replay* replay, size_t index,
                                         cachalot_replay_call* out_call) {
  return guard(nullptr, [&] {
    const auto& rows = require(replay, "replay").result.call_counts;
    write_struct(out_call, write_call(row_at(rows, index, "call")), "out_call");
  });
}

cachalot_allocator* cachalot_replay_allocator(const cachalot_replay* replay) {
  return live_or_null(replay) ? replay->allocator.get() : nullptr;
}

cachalot_status cachalot_replay_snapshot(const cachalot_replay* replay,
                                         cachalot_snapshot** out_snapshot, cachalot_error* error) {
  return guard(error, [&] {
    const cachalot_replay& done = require(replay, "replay");
    cachalot_snapshot*& out = require(out_snapshot, "out_snapshot");
    out = new cachalot_snapshot(snapshot_of(done));
  });
}

cachalot_status cachalot_replay_write_script(const cachalot_trace* trace,
                                             const cachalot_replay_options* options,
                                             cachalot_write_fn write, void* user_data,
                                             cachalot_error* error) {
  return guard(error, [&] {
    const Trace& core = require(trace, "trace").core;
    write_script(core, resolve_options(core, options), write_through(write, user_data));
  });
}
