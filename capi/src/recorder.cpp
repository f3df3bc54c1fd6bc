// SPDX-License-Identifier: MIT OR Apache-2.0
// Recorders, and the files of out-of-memory errors.
#include "cachalot/recorder.h"

#include <memory>
#include <string>
#include <utility>

#include "core_of.h"
#include "trace_handles.h"
#include "values.h"

namespace cachalot::capi {
namespace {

static_assert(static_cast<int32_t>(RecordedContexts::kLabels) == CACHALOT_RECORD_LABELS);
static_assert(static_cast<int32_t>(RecordedContexts::kHistory) == CACHALOT_RECORD_HISTORY_CONTEXTS);
static_assert(static_cast<int32_t>(RecordedContexts::kNone) == CACHALOT_RECORD_NO_CONTEXTS);

constexpr int64_t kMostEvents = 10000000;

bool is_set(const char* text) { return text != nullptr && *text != '\0'; }

// The function keeps the data.
WriteBytes write_lines(cachalot_recording_write_fn write, std::shared_ptr<void> data) {
  return [write, data = std::move(data)](std::string_view lines) {
    if (const int32_t result = write(data.get(), lines.data(), lines.size()))
      throw Error(Status::kCallback, format("the write function returned %d", result));
  };
}

void require_fitting(const cachalot_recorder_options& in) {
  const bool has_path = is_set(in.path);
  if (has_path == (in.write != nullptr))
    throw_invalid_argument("a recorder needs either a path or a write function");
  if (in.max_bytes == 0) return;
  if (!has_path)
    throw_invalid_argument("max_bytes bounds a file, and this recorder has a write function");
  if (in.max_bytes < kLeastKeptBytes)
    throw_invalid_argument(format("max_bytes is %llu: expected 0 or at least %llu",
                                  static_cast<unsigned long long>(in.max_bytes),
                                  static_cast<unsigned long long>(kLeastKeptBytes)));
}

RecorderOptions read_recorder_options(const cachalot_recorder_options& in,
                                      std::shared_ptr<void> data) {
  require_fitting(in);
  RecorderOptions options;
  options.contexts = static_cast<RecordedContexts>(
      read_choice(in.contexts, CACHALOT_RECORD_LABELS, CACHALOT_RECORD_NO_CONTEXTS, "contexts"));
  options.keep = in.max_bytes;
  if (is_set(in.path)) options.path = in.path;
  if (in.write != nullptr) options.write = write_lines(in.write, std::move(data));
  if (in.workload != nullptr) options.header.workload = in.workload;
  return options;
}

uint64_t read_events(int64_t events) {
  if (events < -1 || events > kMostEvents)
    throw_invalid_argument(format("events is %lld: expected -1 to %lld",
                                  static_cast<long long>(events),
                                  static_cast<long long>(kMostEvents)));
  if (events == -1) return 0;
  return events == 0 ? OomDump::kUsualEvents : static_cast<uint64_t>(events);
}

cachalot_recorder_stats write_recorder_stats(const RecorderStats& stats) {
  return {.struct_size = sizeof(cachalot_recorder_stats),
          .events = stats.events,
          .lost = stats.lost,
          .bytes = stats.bytes};
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_recorder_start(cachalot_allocator* allocator,
                                        const cachalot_recorder_options* options, uint64_t* out_id,
                                        cachalot_error* error) {
  return guard(error, [&] {
    const cachalot_recorder_options in = read_options(&require(options, "options"));
    std::shared_ptr<void> data = own(in.write_user_data, in.write_destroy);
    cachalot_allocator& live = require(allocator, "allocator");
    uint64_t& out = require(out_id, "out_id");
    out = live.recorders.start(read_recorder_options(in, std::move(data)));
  });
}

cachalot_status cachalot_recorder_flush(cachalot_allocator* allocator, uint64_t id,
                                        cachalot_error* error) {
  return guard(error, [&] { require(allocator, "allocator").recorders.get(id)->flush(); });
}

cachalot_status cachalot_recorder_stop(cachalot_allocator* allocator, uint64_t id,
                                       cachalot_error* error) {
  return guard(error, [&] {
    Recorders& recorders = require(allocator, "allocator").recorders;
    // One of two calls at a time finds it.
    if (!recorders.stop(id)) recorders.get(id);
  });
}

cachalot_status cachalot_recorder_get_stats(cachalot_allocator* allocator, uint64_t id,
                                            cachalot_recorder_stats* out_stats,
                                            cachalot_error* error) {
  return guard(error, [&] {
    const auto recorder = require(allocator, "allocator").recorders.get(id);
    write_struct(out_stats, write_recorder_stats(recorder->stats()), "out_stats");
  });
}

cachalot_status cachalot_recorder_path(cachalot_allocator* allocator, uint64_t id, char* buffer,
                                       size_t capacity, size_t* out_length, cachalot_error* error) {
  return guard(error, [&] {
    const auto recorder = require(allocator, "allocator").recorders.get(id);
    write_text(buffer, capacity, out_length, recorder->stats().path);
  });
}

cachalot_status cachalot_set_oom_dump(cachalot_allocator* allocator,
                                      const cachalot_oom_dump_options* options,
                                      cachalot_error* error) {
  return guard(error, [&] {
    cachalot_allocator& live = require(allocator, "allocator");
    const cachalot_oom_dump_options in = read_options(options);
    const uint64_t events = read_events(in.events);
    if (is_set(in.folder))
      live.oom_dump.start(in.folder, events);
    else
      live.oom_dump.stop();
  });
}
