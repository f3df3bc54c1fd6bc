// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/pinned_settings.h"

#include <utility>

namespace cachalot {

std::string pinned_options_in(const Settings& settings) {
  const std::pair<const char*, bool> options[] = {
      {"pinned_use_background_threads", settings.pinned_use_background_threads},
      {"pinned_use_cuda_host_register", settings.pinned_use_cuda_host_register},
      {"pinned_free_catch_all", settings.pinned_free_catch_all},
      {"pinned_num_register_threads", settings.pinned_num_register_threads != 1},
      {"pinned_reserve_segment_size_mb", settings.pinned_reserve_segment_size_mb != 0},
      {"pinned_max_round_threshold_mb", settings.pinned_max_round_threshold != kUnlimited},
      {"pinned_max_cached_size_mb", settings.pinned_max_cached_size != kUnlimited},
  };
  std::string names;
  for (const auto& [name, is_set] : options) {
    if (is_set) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

}  // namespace cachalot
