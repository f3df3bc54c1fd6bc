// SPDX-License-Identifier: MIT OR Apache-2.0
// The options of pinned memory, as its allocator uses them. Bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "alloc/config/settings.h"
#include "base/units.h"

namespace cachalot {

// pinned_free_catch_all is not among them: what it catches is no error here (U24).
struct PinnedSettings {
  // Read at each request that has to obtain memory; the region's size only at the first one [pinned 2.3].
  bool use_background_threads = false;
  bool use_cuda_host_register = false;
  int num_register_threads = 1;
  uint64_t reserve_segment_size = 0;  // 0: none
  // Read at each request, and the second at each block that comes back. Larger blocks than the second are not
  // rounded either [pinned 1.2].
  uint64_t max_round_threshold = kUnlimited;
  uint64_t max_cached_size = kUnlimited;
};

inline PinnedSettings pinned_settings_of(const Settings& settings) {
  return {.use_background_threads = settings.pinned_use_background_threads,
          .use_cuda_host_register = settings.pinned_use_cuda_host_register,
          .num_register_threads = static_cast<int>(settings.pinned_num_register_threads),
          .reserve_segment_size =
              std::min(settings.pinned_reserve_segment_size_mb, kUnlimited / MiB) * MiB,
          .max_round_threshold = settings.pinned_max_round_threshold,
          .max_cached_size = settings.pinned_max_cached_size};
}

// The names of the options that have another value than their default, with commas between.
std::string pinned_options_in(const Settings& settings);

}  // namespace cachalot
