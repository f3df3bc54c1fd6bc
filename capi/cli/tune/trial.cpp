// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trial.h"

#include <string_view>
#include <utility>

#include "../failure.h"
#include "../options_check.h"

namespace cachalot::cli {
namespace {

int32_t stop_if_cancelled(void* user_data, uint64_t, uint64_t) {
  return static_cast<const std::atomic<bool>*>(user_data)->load(std::memory_order_relaxed) ? 1 : 0;
}

cachalot_policy policy_of(const OptionString& options) {
  return options.is_of_pytorch() ? cachalot_policy{} : read_policy(options.policy);
}

// Sums over the devices.
uint64_t retries_of(const cachalot_replay* replay, int32_t device_count) {
  uint64_t sum = 0;
  for (int32_t device = 0; device < device_count; device++) {
    cachalot_stats stats{};
    stats.struct_size = sizeof stats;
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_get_stats(cachalot_replay_allocator(replay), device, &stats, &error), error);
    sum += static_cast<uint64_t>(stats.num_alloc_retries);
  }
  return sum;
}

std::vector<cachalot_replay_call> calls_of(const cachalot_replay* replay) {
  std::vector<cachalot_replay_call> calls(cachalot_replay_call_count(replay));
  for (size_t i = 0; i < calls.size(); i++) {
    calls[i].struct_size = sizeof calls[i];
    check(cachalot_replay_get_call(replay, i, &calls[i]));
  }
  return calls;
}

// Those that obtain memory and give it back.
uint64_t memory_calls(const std::vector<cachalot_replay_call>& calls) {
  uint64_t sum = 0;
  for (const cachalot_replay_call& call : calls) {
    const std::string_view function = call.function;
    if (function == "cuMemAlloc" || function == "cuMemFree" || function == "cuMemCreate" ||
        function == "cuMemRelease")
      sum += call.count;
  }
  return sum;
}

}  // namespace

TunedRun::TunedRun(const std::string& file, int32_t release, const std::atomic<bool>* cancelled)
    : name_(file), release_(release), cancelled_(cancelled) {
  try {
    double seconds = 0;
    trace_ = read_trace(file, &seconds);
  } catch (const Failure& failure) {
    throw Failure(file + ": " + failure.what());
  }
  find_peak();
}

TunedRun::TunedRun(std::string name, TraceHandle trace, int32_t release,
                   const std::atomic<bool>* cancelled)
    : name_(std::move(name)), trace_(std::move(trace)), release_(release), cancelled_(cancelled) {
  find_peak();
}

void TunedRun::find_peak() {
  info_ = info_of(trace_.get());
  if (info_.release != CACHALOT_RELEASE_DEFAULT && release_ == CACHALOT_RELEASE_DEFAULT)
    release_ = info_.release;
  const ReplayHandle handle = replay({}, kUnlimited, false);
  peak_requested_ = result_of(handle.get()).peak_requested;
  if (release_ == CACHALOT_RELEASE_DEFAULT)
    release_ = cachalot_allocator_release(cachalot_replay_allocator(handle.get()));
}

ReplayHandle TunedRun::replay(const OptionString& options, uint64_t capacity,
                              bool to_failure) const {
  ReplayCall call;
  call.config = options.config;
  call.policy = policy_of(options);
  call.capacity = capacity;
  call.stop_at_out_of_memory = to_failure;
  cachalot_replay_options given = replay_options(call);
  given.release = release_;
  given.progress = stop_if_cancelled;
  given.progress_user_data = const_cast<std::atomic<bool>*>(cancelled_);
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_replay* replay = nullptr;
  const cachalot_status status = cachalot_replay_run(trace_.get(), &given, &replay, &error);
  if (status == CACHALOT_ERROR_CALLBACK) throw Cancelled();
  if (status != CACHALOT_OK) throw Failure(name_ + ", " + options.name() + ": " + error.message);
  return ReplayHandle(replay);
}

Trial TunedRun::try_out(const OptionString& options, uint64_t capacity, bool to_failure) const {
  const ReplayHandle handle = replay(options, capacity, to_failure);
  const cachalot_replay_result result = result_of(handle.get());
  const std::vector<cachalot_replay_call> calls = calls_of(handle.get());
  return {.capacity = capacity,
          .out_of_memory = result.out_of_memory,
          .peak_reserved = result.peak_reserved,
          .peak_device = result.peak_device_bytes,
          .retries = retries_of(handle.get(), info_.device_count),
          .driver_calls = memory_calls(calls),
          .calls = calls};
}

Trial TunedRun::run(const OptionString& options, uint64_t capacity) const {
  return try_out(options, capacity, false);
}

Trial TunedRun::run_until_failure(const OptionString& options, uint64_t capacity) const {
  return try_out(options, capacity, true);
}

}  // namespace cachalot::cli
