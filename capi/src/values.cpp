// SPDX-License-Identifier: MIT OR Apache-2.0
#include "values.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "callback.h"
#include "environment.h"

namespace cachalot::capi {

static_assert(CACHALOT_RELEASE_2_11 == static_cast<int32_t>(Release::k2_11));
static_assert(CACHALOT_RELEASE_2_15 == static_cast<int32_t>(Release::k2_15));
static_assert(CACHALOT_BORROW_FIRST == static_cast<int32_t>(Borrow::kFirst));
static_assert(CACHALOT_BORROW_NEVER == static_cast<int32_t>(Borrow::kNever));
static_assert(CACHALOT_ACTION_ANNOTATE == static_cast<int32_t>(Action::kAnnotate));
static_assert(CACHALOT_ACTION_ANNOTATE + 1 == kActionCount);
static_assert(CACHALOT_ACTION_CALL_END == static_cast<int32_t>(Action::kCallEnd));
static_assert(CACHALOT_ACTION_RECORDING_END == static_cast<int32_t>(Action::kRecordingEnd));
static_assert(CACHALOT_ACTION_RECORDING_END + 1 == kRecordedActionCount);

int32_t read_choice(int32_t value, int32_t first, int32_t last, const char* name) {
  if (value < first || value > last)
    throw_invalid_argument(format("%s is %d: expected %d to %d", name, value, first, last));
  return value;
}

uint32_t read_bits(uint32_t value, uint32_t known, const char* name) {
  if ((value & ~known) != 0)
    throw_invalid_argument(format("%s is 0x%x: only 0x%x is known", name, value, known));
  return value;
}

Release read_release(int32_t release) {
  switch (release) {
    case CACHALOT_RELEASE_DEFAULT:
      return environment_release();
    case CACHALOT_RELEASE_2_11:
      return Release::k2_11;
    case CACHALOT_RELEASE_2_15:
      return Release::k2_15;
    default:
      throw_invalid_argument(format("release is %d: expected %d, %d or %d", release,
                                    CACHALOT_RELEASE_DEFAULT, CACHALOT_RELEASE_2_11,
                                    CACHALOT_RELEASE_2_15));
  }
}

std::optional<ServingOptions> read_policy(const cachalot_policy& in) {
  const int32_t policy =
      read_choice(in.policy, CACHALOT_POLICY_DEFAULT, CACHALOT_POLICY_SERVING, "policy");
  ServingOptions options;
  options.is_on = policy == CACHALOT_POLICY_SERVING;
  options.thrift = read_flag(in.thrift, "thrift");
  options.borrow = static_cast<Borrow>(
      read_choice(in.borrow, CACHALOT_BORROW_FIRST, CACHALOT_BORROW_NEVER, "borrow"));
  options.announces_streams = read_choice(in.streams, CACHALOT_STREAMS_UNANNOUNCED,
                                          CACHALOT_STREAMS_ANNOUNCED, "streams") != 0;
  options.page_bytes = in.page_bytes;
  if (!options.is_on && (in.thrift != 0 || in.borrow != 0 || in.streams != 0))
    throw_invalid_argument(
        "thrift, borrow and streams are options of the serving policy: policy is to be "
        "CACHALOT_POLICY_SERVING");
  if (policy == CACHALOT_POLICY_DEFAULT && in.page_bytes != 0)
    throw_invalid_argument("page_bytes is an option of a policy, and policy is 0");
  check_serving(options);
  if (policy == CACHALOT_POLICY_DEFAULT) return {};
  return options;
}

cachalot_policy write_policy(const ServingOptions& options) {
  return {.struct_size = sizeof(cachalot_policy),
          .policy = options.is_on ? CACHALOT_POLICY_SERVING : CACHALOT_POLICY_PYTORCH,
          .thrift = options.thrift,
          .borrow = static_cast<int32_t>(options.borrow),
          .streams = options.announces_streams,
          .page_bytes = options.page_bytes};
}

PoolId read_pool_id(cachalot_pool_id id) {
  if ((id.first == 0) == (id.second == 0))
    throw_invalid_argument(format("pool id is (%llu, %llu): exactly one half must not be 0",
                                  static_cast<unsigned long long>(id.first),
                                  static_cast<unsigned long long>(id.second)));
  return {id.first, id.second};
}

PoolId read_pool_id_or_all(cachalot_pool_id id) {
  return id.first == 0 && id.second == 0 ? PoolId{} : read_pool_id(id);
}

Settings read_settings(const cachalot_settings& in, Settings settings) {
  settings.max_split_size = in.max_split_size;
  settings.max_non_split_rounding_size = in.max_non_split_rounding_size;
  settings.large_segment_size = in.large_segment_size;
  settings.garbage_collection_threshold = in.garbage_collection_threshold;
  settings.per_process_memory_fraction = in.per_process_memory_fraction;
  std::copy(std::begin(in.roundup_power2_divisions), std::end(in.roundup_power2_divisions),
            settings.roundup_power2_divisions.begin());
  settings.roundup_bypass_threshold = in.roundup_bypass_threshold;
  settings.expandable_segments = read_flag(in.expandable_segments, "expandable_segments");
  settings.release_lock_on_cudamalloc =
      read_flag(in.release_lock_on_cudamalloc, "release_lock_on_cudamalloc");
  settings.graph_capture_record_stream_reuse =
      read_flag(in.graph_capture_record_stream_reuse, "graph_capture_record_stream_reuse");
  settings.throw_on_cudamalloc_oom =
      read_flag(in.throw_on_cudamalloc_oom, "throw_on_cudamalloc_oom");
  settings.pinned_use_background_threads =
      read_flag(in.pinned_use_background_threads, "pinned_use_background_threads");
  settings.pinned_use_cuda_host_register =
      read_flag(in.pinned_use_cuda_host_register, "pinned_use_cuda_host_register");
  settings.pinned_free_catch_all = read_flag(in.pinned_free_catch_all, "pinned_free_catch_all");
  settings.pinned_num_register_threads = in.pinned_num_register_threads;
  settings.pinned_reserve_segment_size_mb = in.pinned_reserve_segment_size_mb;
  settings.pinned_max_round_threshold = in.pinned_max_round_threshold;
  settings.pinned_max_cached_size = in.pinned_max_cached_size;
  return settings;
}

cachalot_settings write_settings(const Settings& settings) {
  cachalot_settings out{};
  out.struct_size = sizeof out;
  out.max_split_size = settings.max_split_size;
  out.max_non_split_rounding_size = settings.max_non_split_rounding_size;
  out.large_segment_size = settings.large_segment_size;
  out.garbage_collection_threshold = settings.garbage_collection_threshold;
  out.per_process_memory_fraction = settings.per_process_memory_fraction;
  std::copy(settings.roundup_power2_divisions.begin(), settings.roundup_power2_divisions.end(),
            std::begin(out.roundup_power2_divisions));
  out.roundup_bypass_threshold = settings.roundup_bypass_threshold;
  out.expandable_segments = settings.expandable_segments;
  out.release_lock_on_cudamalloc = settings.release_lock_on_cudamalloc;
  out.graph_capture_record_stream_reuse = settings.graph_capture_record_stream_reuse;
  out.throw_on_cudamalloc_oom = settings.throw_on_cudamalloc_oom;
  out.pinned_use_background_threads = settings.pinned_use_background_threads;
  out.pinned_use_cuda_host_register = settings.pinned_use_cuda_host_register;
  out.pinned_free_catch_all = settings.pinned_free_catch_all;
  out.pinned_num_register_threads = settings.pinned_num_register_threads;
  out.pinned_reserve_segment_size_mb = settings.pinned_reserve_segment_size_mb;
  out.pinned_max_round_threshold = settings.pinned_max_round_threshold;
  out.pinned_max_cached_size = settings.pinned_max_cached_size;
  return out;
}

cachalot_stat write_stat(const Stat& stat) {
  return {
      .current = stat.current, .peak = stat.peak, .allocated = stat.allocated, .freed = stat.freed};
}

cachalot_trace_entry write_trace_entry(const TraceEntry& entry) {
  CACHALOT_ASSERT(1, entry.internal_metadata);
  return {
      .struct_size = sizeof(cachalot_trace_entry),
      .action = static_cast<int32_t>(entry.action),
      .device = entry.device,
      .address = entry.address,
      .size = entry.size,
      .stream = entry.stream,
      .pool = write_pool_id(entry.pool),
      .context = entry.context,
      .time_us = entry.time_us,
      .metadata = entry.metadata ? entry.metadata->c_str() : "",
      .internal_metadata = entry.internal_metadata,
  };
}

std::shared_ptr<void> own(void* user_data, void (*destroy)(void* user_data)) {
  return std::shared_ptr<void>(user_data, [destroy](void* data) {
    if (destroy != nullptr) call_caller([&] { destroy(data); });
  });
}

}  // namespace cachalot::capi
