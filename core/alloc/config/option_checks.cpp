// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/config/option_checks.h"

#include <cinttypes>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace cachalot {

namespace {

// [opt 4.12] A bound of the reference; the option serves the pinned-memory allocator only.
constexpr uint64_t kMaxRegisterThreads = 128;

}  // namespace

// The conditions name what is allowed, not what is wrong: so a NaN fails them.

void check_large_segment_size(uint64_t size) {
  if (size <= kMinLargeAlloc)
    throw_invalid_argument("CachingAllocator option large_segment_size_mb must be > 10 MB");
}

void check_not_below_large_segment(std::string_view key, uint64_t size, const Settings& settings) {
  if (size >= settings.large_segment_size) return;
  throw_invalid_argument(format("CachingAllocator option %.*s too small, must be >= %" PRIu64,
                                static_cast<int>(key.size()), key.data(),
                                settings.large_segment_size / MiB));
}

void check_garbage_collection_threshold(double fraction) {
  if (!(fraction > 0 && fraction < 1))
    throw_invalid_argument("garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
}

// 0 is allowed: then each request to the driver is refused.
void check_per_process_memory_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1))
    throw_invalid_argument("per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
}

// The space at the end of these three texts is the reference's.

void check_divisions(uint64_t divisions) {
  if (!is_power_of_two(divisions))
    throw_invalid_argument("For roundups, the divisions has to be power of 2 ");
}

// 0 switches rounding off for one interval; as the number for all sizes it is an error.
void check_divisions_of_interval(uint64_t divisions) {
  if (divisions != 0 && !is_power_of_two(divisions))
    throw_invalid_argument(
        "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
}

void check_interval(uint64_t begin_mb) {
  if (!is_power_of_two(begin_mb))
    throw_invalid_argument("For roundups, the intervals have to be power of 2 ");
}

void check_register_threads(uint64_t threads) {
  if (!is_power_of_two(threads))
    throw_invalid_argument(
        format("Number of register threads has to be power of 2, got %" PRIu64, threads));
  if (threads > kMaxRegisterThreads)
    throw_invalid_argument(format(
        "Number of register threads should be less than or equal to %" PRIu64 ", got %" PRIu64,
        kMaxRegisterThreads, threads));
}

void check_reserve_segment_size(uint64_t size_mb) {
  if (size_mb == 0) throw_invalid_argument("Pinned reserve segment size has to be greater than 0");
}

bool is_valid_reserve(const Reserve& reserve) {
  return std::isfinite(reserve.value) && reserve.value > 0;
}

}  // namespace cachalot
