// SPDX-License-Identifier: MIT OR Apache-2.0
// The ranges of the options, with the reference's error texts. Every check throws
// Error(kInvalidArgument).
#pragma once

#include <cstdint>
#include <string_view>

#include "alloc/config/settings.h"

namespace cachalot {

// Bytes. key: as in the option string.
void check_large_segment_size(uint64_t size);
void check_not_below_large_segment(std::string_view key, uint64_t size, const Settings& settings);

void check_garbage_collection_threshold(double fraction);
void check_per_process_memory_fraction(double fraction);

// roundup_power2_divisions: one number for all sizes; the number for one interval (0: its sizes are
// not rounded); the begin of an interval, in MiB.
void check_divisions(uint64_t divisions);
void check_divisions_of_interval(uint64_t divisions);
void check_interval(uint64_t begin_mb);

void check_register_threads(uint64_t threads);
void check_reserve_segment_size(uint64_t size_mb);

// Positive and finite (R34).
bool is_valid_reserve(const Reserve& reserve);

}  // namespace cachalot
