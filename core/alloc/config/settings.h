// SPDX-License-Identifier: MIT OR Apache-2.0
// The options in force (docs/config.md). Bytes unless a name says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "alloc/config/constants.h"

namespace cachalot {

// A value of expandable_segments_reserve: a fraction of the device's memory, or bytes (R34).
struct Reserve {
  bool is_fraction = true;
  double value = 0;  // the fraction, or GiB
};

// The addresses that an expandable segment of a reserve class gets on a device.
struct ReserveDecision {
  std::optional<uint64_t> reserve_bytes;
  bool is_class_known;
  uint64_t segment_bytes;  // before rounding up to pages
};

// All options, with the reference's defaults. Copied as a whole: a device works with a copy of its
// own, so that no request sees half of a change.
struct Settings {
  uint64_t max_split_size = kUnlimited;
  uint64_t max_non_split_rounding_size = kDefaultLargeSegment;
  uint64_t large_segment_size = kDefaultLargeSegment;
  double garbage_collection_threshold = 0;
  double per_process_memory_fraction = 1;
  std::array<uint64_t, kRoundupSlots> roundup_power2_divisions{};
  uint64_t roundup_bypass_threshold = kUnlimited;
  bool expandable_segments = false;
  bool release_lock_on_cudamalloc = false;
  bool graph_capture_record_stream_reuse = false;
  bool throw_on_cudamalloc_oom = false;

  // Kept for the pinned-memory allocator.
  bool pinned_use_background_threads = false;
  bool pinned_use_cuda_host_register = false;
  bool pinned_free_catch_all = false;
  uint64_t pinned_num_register_threads = 1;
  uint64_t pinned_reserve_segment_size_mb = 0;
  uint64_t pinned_max_round_threshold = kUnlimited;
  uint64_t pinned_max_cached_size = kUnlimited;

  std::optional<Reserve> expandable_segments_reserve;
  std::map<std::string, Reserve> expandable_segments_reserve_by_class;

  bool is_backend_async = false;  // backend:cudaMallocAsync; chosen at creation, for good

  std::string config;  // the last option string, word for word

  // The rounding goes with it where it has its default.
  void set_large_segment_size(uint64_t size) {
    if (max_non_split_rounding_size == large_segment_size) max_non_split_rounding_size = size;
    large_segment_size = size;
  }

  // max_split_size as statistics and settings show it: -1 is unlimited [opt 4.2].
  int64_t shown_max_split_size() const { return static_cast<int64_t>(max_split_size); }
};

}  // namespace cachalot
