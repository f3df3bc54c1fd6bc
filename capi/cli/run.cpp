// SPDX-License-Identifier: MIT OR Apache-2.0
#include "run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>

#include "failure.h"
#include "progress.h"
#include "trace_input.h"

namespace cachalot::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What stands behind the read callback. No exception may pass through the library, so it waits
// here.
struct Reading {
  TraceInput input;
  ProgressBar bar;
  const ReadCall& call;
  std::exception_ptr failure;
  std::string held_back;  // what comes next
  size_t given_back = 0;  // of it
  bool is_behind_header = false;

  size_t read(char* buffer, size_t capacity) {
    if (given_back < held_back.size()) {
      const size_t count = std::min(capacity, held_back.size() - given_back);
      std::memcpy(buffer, held_back.data() + given_back, count);
      given_back += count;
      return count;
    }
    const size_t count = input.read(buffer, capacity);
    const size_t header_end = std::string_view(buffer, count).find('\n');
    if (is_behind_header || header_end == std::string_view::npos) return count;
    is_behind_header = true;
    held_back = call.behind_header;
    if (held_back.empty()) return count;
    held_back.append(buffer + header_end + 1, count - header_end - 1);
    return header_end + 1;
  }
};

int64_t read_input(void* user_data, void* buffer, size_t capacity) {
  auto& reading = *static_cast<Reading*>(user_data);
  try {
    const size_t count = reading.read(static_cast<char*>(buffer), capacity);
    if (reading.call.copy && count > 0)
      reading.call.copy({static_cast<const char*>(buffer), count});
    reading.bar.show(reading.input.packed_bytes_read(), reading.input.packed_size());
    return static_cast<int64_t>(count);
  } catch (...) {
    reading.failure = std::current_exception();
    return -1;
  }
}

// What is left of a text.
int64_t read_text(void* user_data, void* buffer, size_t capacity) {
  auto& rest = *static_cast<std::string_view*>(user_data);
  const size_t count = std::min(capacity, rest.size());
  std::memcpy(buffer, rest.data(), count);
  rest.remove_prefix(count);
  return static_cast<int64_t>(count);
}

// What stands behind a replay's callbacks.
struct Replaying {
  ProgressBar bar;
  const EntryObserver& observer;
  cachalot_replay* replay = nullptr;
  std::exception_ptr failure;
};

int32_t show_progress(void* user_data, uint64_t done, uint64_t total) {
  auto& replaying = *static_cast<Replaying*>(user_data);
  replaying.bar.show(done, total);
  return replaying.failure ? 1 : 0;
}

void observe(void* user_data, uint64_t event, const cachalot_trace_entry* entry) {
  auto& replaying = *static_cast<Replaying*>(user_data);
  if (replaying.failure) return;
  try {
    replaying.observer(cachalot_replay_allocator(replaying.replay), event, *entry);
  } catch (...) {
    replaying.failure = std::current_exception();
  }
}

// Recorded statistics are those of the first device.
std::map<std::string, int64_t> replayed_stats(const cachalot_replay* replay) {
  cachalot_allocator* const allocator = cachalot_replay_allocator(replay);
  const int32_t release = cachalot_allocator_release(allocator);
  cachalot_stats stats{};
  stats.struct_size = sizeof stats;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_get_stats(allocator, 0, &stats, &error), error);
  std::map<std::string, int64_t> values;
  const char* name = nullptr;
  int64_t value = 0;
  for (size_t i = 0; cachalot_stats_at(&stats, release, i, &name, &value) == CACHALOT_OK; i++)
    values[name] = value;
  return values;
}

std::vector<StatPair> pair_stats(const Run& run) {
  const auto replayed = replayed_stats(run.replay.get());
  std::vector<StatPair> pairs;
  for (size_t i = 0; i < run.info.stat_count; i++) {
    const char* name = nullptr;
    int64_t value = 0;
    check(cachalot_trace_get_stat(run.trace.get(), i, &name, &value));
    const auto found = replayed.find(name);
    pairs.push_back({name, value, {}});
    if (found != replayed.end()) pairs.back().replayed = found->second;
  }
  return pairs;
}

int32_t write_to_output(void*, const void* data, size_t size) {
  return std::fwrite(data, 1, size, stdout) == size ? 0 : 1;
}

}  // namespace

int32_t release_of(std::string_view text) {
  if (text == "2.11") return CACHALOT_RELEASE_2_11;
  if (text == "2.15") return CACHALOT_RELEASE_2_15;
  return CACHALOT_RELEASE_DEFAULT;
}

std::string release_text(int32_t release) {
  return std::to_string(release / 100) + "." + std::to_string(release % 100);
}

std::string file_name(const std::string& path) {
  return path == "-" ? "standard input" : path.substr(path.find_last_of('/') + 1);
}

cachalot_trace_info info_of(const cachalot_trace* trace) {
  cachalot_trace_info info{};
  info.struct_size = sizeof info;
  check(cachalot_trace_get_info(trace, &info));
  return info;
}

cachalot_replay_result result_of(const cachalot_replay* replay) {
  cachalot_replay_result result{};
  result.struct_size = sizeof result;
  check(cachalot_replay_get_result(replay, &result));
  return result;
}

cachalot_replay_options replay_options(const ReplayCall& call) {
  cachalot_replay_options options{};
  options.struct_size = sizeof options;
  options.config = call.config ? call.config->c_str() : nullptr;
  options.release = release_of(call.torch);
  options.expect = call.expect;
  options.capacity = call.capacity;
  options.fraction = call.fraction;
  options.stop_at_out_of_memory = call.stop_at_out_of_memory;
  options.history = call.history;
  options.policy = call.policy.policy;
  options.thrift = call.policy.thrift;
  options.borrow = call.policy.borrow;
  options.streams = call.policy.streams;
  options.page_bytes = call.policy.page_bytes;
  return options;
}

TraceHandle read_trace(const std::string& file, double* seconds, const ReadCall& call) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_trace* trace = nullptr;
  const auto begin = Clock::now();
  Reading reading{
      TraceInput(file, call.process), ProgressBar("reading  "), call, nullptr, {}, 0, false};
  const cachalot_status status = cachalot_trace_read(read_input, &reading, &trace, &error);
  *seconds += seconds_since(begin) - reading.input.seconds();
  if (reading.failure) std::rethrow_exception(reading.failure);
  check(status, error);
  return TraceHandle(trace);
}

TraceHandle parse_trace(std::string_view text) {
  cachalot_trace* trace = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_trace_read(read_text, &text, &trace, &error), error);
  return TraceHandle(trace);
}

ReplayHandle replay_trace(const cachalot_trace* trace, const ReplayCall& call,
                          const EntryObserver& observer) {
  Replaying replaying{ProgressBar("replaying"), observer, nullptr, nullptr};
  cachalot_replay_options options = replay_options(call);
  options.progress = show_progress;
  options.progress_user_data = &replaying;
  if (observer) options.observer = observe;
  options.observer_user_data = &replaying;
  cachalot_error error = CACHALOT_ERROR_INIT;
  const cachalot_status status = cachalot_replay_run(trace, &options, &replaying.replay, &error);
  ReplayHandle replay(replaying.replay);
  if (replaying.failure) std::rethrow_exception(replaying.failure);
  check(status, error);
  return replay;
}

size_t Run::equal_stats() const {
  const auto equal = [](const StatPair& pair) { return pair.is_equal(); };
  return static_cast<size_t>(std::count_if(stats.begin(), stats.end(), equal));
}

Run replay_file(const std::string& file, const ReplayCall& call) {
  Run run{};
  run.file = file;
  run.trace = read_trace(file, &run.seconds);
  run.info = info_of(run.trace.get());
  const auto begin = Clock::now();
  run.replay = replay_trace(run.trace.get(), call);
  run.seconds += seconds_since(begin);
  run.result = result_of(run.replay.get());
  run.stats = pair_stats(run);
  return run;
}

void write_script(const std::string& file, const ReplayCall& call) {
  double seconds = 0;
  const TraceHandle trace = read_trace(file, &seconds);
  const cachalot_replay_options options = replay_options(call);
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_replay_write_script(trace.get(), &options, write_to_output, nullptr, &error),
        error);
  if (std::fflush(stdout) != 0) throw Failure("standard output cannot be written");
}

}  // namespace cachalot::cli
