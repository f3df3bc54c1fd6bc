// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of a live allocator: by string, all as numbers, and one at a time.
#include <algorithm>
#include <array>

#include "cachalot/allocator.h"
#include "core_of.h"
#include "values.h"

using namespace cachalot;
using namespace cachalot::capi;

namespace {

template <class Value>
cachalot_status set_field(cachalot_allocator* allocator, Value Settings::*field, Value value,
                          cachalot_error* error) {
  return guard(error, [&] {
    core_of(allocator).change_settings([&](Settings& changed) { changed.*field = value; });
  });
}

cachalot_status set_flag(cachalot_allocator* allocator, bool Settings::*field, int32_t enabled,
                         cachalot_error* error) {
  return guard(error, [&] {
    const bool value = read_flag(enabled, "enabled");
    core_of(allocator).change_settings([&](Settings& changed) { changed.*field = value; });
  });
}

// One for all sizes, or one for each slot.
std::array<uint64_t, kRoundupSlots> read_divisions(const uint64_t* divisions, size_t count) {
  const uint64_t& first = require(divisions, "divisions");
  std::array<uint64_t, kRoundupSlots> slots;
  if (count != 1 && count != slots.size())
    throw_invalid_argument(
        format("count is %zu: divisions are for all sizes (1) or for each slot (%zu)", count,
               slots.size()));
  if (count == 1) {
    slots.fill(first);
  } else {
    std::copy_n(divisions, slots.size(), slots.begin());
  }
  return slots;
}

}  // namespace

cachalot_status cachalot_configure(cachalot_allocator* allocator, const char* config,
                                   cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    core.configure(&require(config, "config"));
  });
}

cachalot_status cachalot_get_config(cachalot_allocator* allocator, char* buffer, size_t capacity,
                                    size_t* out_length, cachalot_error* error) {
  return guard(error, [&] {
    write_text(buffer, capacity, out_length, core_of(allocator).settings().config);
  });
}

cachalot_status cachalot_get_settings(cachalot_allocator* allocator,
                                      cachalot_settings* out_settings, cachalot_error* error) {
  return guard(error, [&] {
    write_struct(out_settings, write_settings(core_of(allocator).settings()), "out_settings");
  });
}

cachalot_status cachalot_set_settings(cachalot_allocator* allocator,
                                      const cachalot_settings* settings, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const cachalot_settings in = read_options(&require(settings, "settings"), "settings");
    core.change_settings([&](Settings& changed) { changed = read_settings(in, changed); });
  });
}

cachalot_status cachalot_update_config(cachalot_allocator* allocator, const char* config,
                                       cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    core.update_config(&require(config, "config"));
  });
}

cachalot_status cachalot_set_max_split_size(cachalot_allocator* allocator, uint64_t bytes,
                                            cachalot_error* error) {
  return set_field(allocator, &Settings::max_split_size, bytes, error);
}

cachalot_status cachalot_set_max_non_split_rounding_size(cachalot_allocator* allocator,
                                                         uint64_t bytes, cachalot_error* error) {
  return set_field(allocator, &Settings::max_non_split_rounding_size, bytes, error);
}

cachalot_status cachalot_set_large_segment_size(cachalot_allocator* allocator, uint64_t bytes,
                                                cachalot_error* error) {
  return guard(error, [&] {
    core_of(allocator).change_settings(
        [&](Settings& changed) { changed.set_large_segment_size(bytes); });
  });
}

cachalot_status cachalot_set_garbage_collection_threshold(cachalot_allocator* allocator,
                                                          double fraction, cachalot_error* error) {
  return set_field(allocator, &Settings::garbage_collection_threshold, fraction, error);
}

cachalot_status cachalot_set_per_process_memory_fraction(cachalot_allocator* allocator,
                                                         double fraction, cachalot_error* error) {
  return set_field(allocator, &Settings::per_process_memory_fraction, fraction, error);
}

cachalot_status cachalot_set_roundup_bypass_threshold(cachalot_allocator* allocator, uint64_t bytes,
                                                      cachalot_error* error) {
  return set_field(allocator, &Settings::roundup_bypass_threshold, bytes, error);
}

cachalot_status cachalot_set_expandable_segments(cachalot_allocator* allocator, int32_t enabled,
                                                 cachalot_error* error) {
  return set_flag(allocator, &Settings::expandable_segments, enabled, error);
}

cachalot_status cachalot_set_release_lock_on_cudamalloc(cachalot_allocator* allocator,
                                                        int32_t enabled, cachalot_error* error) {
  return set_flag(allocator, &Settings::release_lock_on_cudamalloc, enabled, error);
}

cachalot_status cachalot_set_graph_capture_record_stream_reuse(cachalot_allocator* allocator,
                                                               int32_t enabled,
                                                               cachalot_error* error) {
  return set_flag(allocator, &Settings::graph_capture_record_stream_reuse, enabled, error);
}

cachalot_status cachalot_set_throw_on_cudamalloc_oom(cachalot_allocator* allocator, int32_t enabled,
                                                     cachalot_error* error) {
  return set_flag(allocator, &Settings::throw_on_cudamalloc_oom, enabled, error);
}

cachalot_status cachalot_set_pinned_use_background_threads(cachalot_allocator* allocator,
                                                           int32_t enabled, cachalot_error* error) {
  return set_flag(allocator, &Settings::pinned_use_background_threads, enabled, error);
}

cachalot_status cachalot_set_pinned_use_cuda_host_register(cachalot_allocator* allocator,
                                                           int32_t enabled, cachalot_error* error) {
  return set_flag(allocator, &Settings::pinned_use_cuda_host_register, enabled, error);
}

cachalot_status cachalot_set_pinned_free_catch_all(cachalot_allocator* allocator, int32_t enabled,
                                                   cachalot_error* error) {
  return set_flag(allocator, &Settings::pinned_free_catch_all, enabled, error);
}

cachalot_status cachalot_set_pinned_num_register_threads(cachalot_allocator* allocator,
                                                         uint64_t threads, cachalot_error* error) {
  return set_field(allocator, &Settings::pinned_num_register_threads, threads, error);
}

cachalot_status cachalot_set_pinned_reserve_segment_size_mb(cachalot_allocator* allocator,
                                                            uint64_t megabytes,
                                                            cachalot_error* error) {
  return set_field(allocator, &Settings::pinned_reserve_segment_size_mb, megabytes, error);
}

cachalot_status cachalot_set_pinned_max_round_threshold(cachalot_allocator* allocator,
                                                        uint64_t bytes, cachalot_error* error) {
  return set_field(allocator, &Settings::pinned_max_round_threshold, bytes, error);
}

cachalot_status cachalot_set_pinned_max_cached_size(cachalot_allocator* allocator, uint64_t bytes,
                                                    cachalot_error* error) {
  return set_field(allocator, &Settings::pinned_max_cached_size, bytes, error);
}

cachalot_status cachalot_set_roundup_power2_divisions(cachalot_allocator* allocator,
                                                      const uint64_t* divisions, size_t count,
                                                      cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const auto slots = read_divisions(divisions, count);
    core.change_settings([&](Settings& changed) { changed.roundup_power2_divisions = slots; });
  });
}
