// SPDX-License-Identifier: MIT OR Apache-2.0
// Trace files: read, looked at, replayed, written as a script, and the replay's own history written
// and read again. The first byte chooses how; the file follows.
#include <algorithm>
#include <cstring>
#include <string>

#include "check.h"
#include "sized.h"

namespace cachalot_test {
namespace {

struct Input {
  const uint8_t* at;
  size_t left;
  size_t piece;  // bytes a call gives at most
};

int64_t read_piece(void* user_data, void* buffer, size_t capacity) {
  auto& input = *static_cast<Input*>(user_data);
  const size_t count = std::min({input.left, input.piece, capacity});
  if (count > 0) std::memcpy(buffer, input.at, count);
  input.at += count;
  input.left -= count;
  return static_cast<int64_t>(count);
}

int32_t append(void* user_data, const void* data, size_t size) {
  static_cast<std::string*>(user_data)->append(static_cast<const char*>(data), size);
  return 0;
}

cachalot_trace* read(const uint8_t* data, size_t size, size_t piece) {
  Input input = {data, size, piece};
  cachalot_trace* trace = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  const cachalot_status status = cachalot_trace_read(read_piece, &input, &trace, &error);
  if (worked(status, error, {CACHALOT_ERROR_IO})) return trace;
  require(trace == nullptr, "a failed reading gave a trace");
  require(std::strncmp(error.message, "line ", 5) == 0, "which line?", error.message);
  return nullptr;
}

void look_at(const cachalot_trace* trace) {
  auto info = sized<cachalot_trace_info>();
  require(cachalot_trace_get_info(trace, &info) == CACHALOT_OK, "no info");
  auto event = sized<cachalot_trace_event>();
  for (size_t i = 0; i < info.event_count; i++) {
    require(cachalot_trace_get_event(trace, i, &event) == CACHALOT_OK, "no event");
    cachalot_trace_frame frame{};
    frame.struct_size = sizeof frame;
    for (size_t k = 0; cachalot_trace_get_frame(trace, event.context, k, &frame) == CACHALOT_OK;
         k++)
      require(frame.path != nullptr, "a frame without a path");
    require(event.device < info.device_count, "an event of no device");
  }
  require(cachalot_trace_get_event(trace, info.event_count, &event) != CACHALOT_OK, "one more");
  const char* name = nullptr;
  int64_t value = 0;
  for (size_t i = 0; i < info.stat_count; i++)
    require(cachalot_trace_get_stat(trace, i, &name, &value) == CACHALOT_OK, "no statistic");
}

void write_and_read_again(cachalot_allocator* allocator) {
  if (std::strcmp(cachalot_allocator_backend(allocator), "native") != 0) return;
  cachalot_snapshot* snapshot = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  require(cachalot_snapshot_take(allocator, nullptr, &snapshot, &error) == CACHALOT_OK,
          "no snapshot", error.message);
  std::string text;
  require(cachalot_trace_write(snapshot, nullptr, "again", append, &text, &error) == CACHALOT_OK,
          "the history cannot be written", error.message);
  cachalot_snapshot_destroy(snapshot);
  cachalot_trace* trace = read(reinterpret_cast<const uint8_t*>(text.data()), text.size(), 4096);
  require(trace != nullptr, "what was written cannot be read");
  cachalot_trace_destroy(trace);
}

void replay(const cachalot_trace* trace, uint8_t flags) {
  auto options = sized<cachalot_replay_options>();
  options.expect = flags & 1;
  options.release = flags & 2 ? 0 : CACHALOT_RELEASE_2_15;
  options.config = flags & 4 ? nullptr : "expandable_segments:True";
  options.capacity = flags & 8 ? 0 : uint64_t{1} << 30;
  options.fraction = flags & 16 ? 0.5 : 0;
  cachalot_replay* replay = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  const auto refusals = {CACHALOT_ERROR_IO,
                         CACHALOT_ERROR_INVALID_ARGUMENT,
                         CACHALOT_ERROR_INVALID_STATE,
                         CACHALOT_ERROR_NOT_SUPPORTED,
                         CACHALOT_ERROR_DRIVER,
                         CACHALOT_ERROR_OUT_OF_MEMORY};
  if (worked(cachalot_replay_run(trace, &options, &replay, &error), error, refusals)) {
    auto result = sized<cachalot_replay_result>();
    require(cachalot_replay_get_result(replay, &result) == CACHALOT_OK, "no result");
    require(cachalot_check(cachalot_replay_allocator(replay), &error) == CACHALOT_OK, "the auditor",
            error.message);
    write_and_read_again(cachalot_replay_allocator(replay));
    cachalot_replay_destroy(replay);
  }
  std::string script;
  worked(cachalot_replay_write_script(trace, &options, append, &script, &error), error, refusals);
}

}  // namespace
}  // namespace cachalot_test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cachalot_test;
  if (size == 0) return 0;
  const size_t piece = data[0] & 32 ? 7 : 1 << 16;
  cachalot_trace* trace = read(data + 1, size - 1, piece);
  if (trace == nullptr) return 0;
  look_at(trace);
  replay(trace, data[0]);
  cachalot_trace_destroy(trace);
  return 0;
}
