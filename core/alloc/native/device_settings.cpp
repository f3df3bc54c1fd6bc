// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/device_settings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "alloc/heap/block_changes.h"

namespace cachalot {

DeviceSettings::DeviceSettings(Settings settings, const Rules& rules, SlowPathFlags& flags,
                               const ServingOptions& serving)
    : flags_(flags), rules_(rules), serving_(serving), settings_(std::move(settings)) {
  flags_.put(kServing, serving_.is_on);
  hit_rules_.clock = serving_.is_on ? 1 : 0;
  changed();
}

// Cannot fail: it runs for one device after the other, and a failure would leave them with
// different settings.
void DeviceSettings::swap(Settings& settings) {
  std::swap(settings_, settings);
  changed();
}

void DeviceSettings::set_limit(uint64_t bytes) {
  limit_ = bytes;
  changed();
}

// Options that the serving policy does not have [policy P2]: ranges are expandable, whatever is left of
// a block is cut off, and no age counts.
void DeviceSettings::leave_to_policy() {
  const Settings defaults;
  settings_.expandable_segments = true;
  settings_.max_split_size = defaults.max_split_size;
  settings_.max_non_split_rounding_size = kUnlimited;
  settings_.large_segment_size = defaults.large_segment_size;
  settings_.garbage_collection_threshold = defaults.garbage_collection_threshold;
  settings_.throw_on_cudamalloc_oom = defaults.throw_on_cudamalloc_oom;
  settings_.expandable_segments_reserve.reset();
  settings_.expandable_segments_reserve_by_class.clear();
}

void DeviceSettings::changed() {
  if (serving_.is_on) leave_to_policy();
  const auto& divisions = settings_.roundup_power2_divisions;
  flags_.put(kRounding, std::any_of(divisions.begin(), divisions.end(),
                                    [](uint64_t number) { return number > 1; }));
  const bool ages = limit_ != kUnlimited && settings_.garbage_collection_threshold > 0;
  flags_.put(kAging, ages);
  // No age has counted before, so every block was put into its free set at count 0, as its mark says.
  if (ages) flags_.put(kMarks, true);
  // Copies of the few values that a hit reads, so that they lie in one line.
  hit_rules_ = {.max_split_size = settings_.max_split_size,
                .max_non_split_rounding_size = settings_.max_non_split_rounding_size,
                .expandable_segments = settings_.expandable_segments,
                .least_remainder = {least_remainder(false, settings_.expandable_segments),
                                    least_remainder(true, settings_.expandable_segments)},
                .clock = hit_rules_.clock};
}

// Since 2.13 to the nearest, so the fraction that is read back can be above the one that was set.
uint64_t DeviceSettings::limit_of(double fraction, uint64_t total) const {
  const double bytes = fraction * static_cast<double>(total);
  return static_cast<uint64_t>(rules_.rounds_limit ? std::round(bytes) : std::floor(bytes));
}

// Chooses the slot by the size as asked, not by a rounded one [core 4.6].
uint64_t DeviceSettings::round_size(uint64_t n) const {
  if (n < kMinBlockSize) return kMinBlockSize;
  if (flags_.has(kRounding) && n <= settings_.roundup_bypass_threshold) [[unlikely]] {
    const unsigned power = log2_floor(n);
    const unsigned slot = power < 20 ? 0 : std::min(power - 20, kRoundupSlots - 1u);
    const uint64_t divisions = settings_.roundup_power2_divisions[slot];
    if (divisions > 1 && n > kMinBlockSize * divisions) {
      if (is_power_of_two(n)) return n;
      const uint64_t step = (uint64_t{1} << power) >> log2_floor(divisions);
      // No step: so many divisions that 512 times their number is more than 64 bits [core 4.5].
      return step == 0 ? uint64_t{2} << power : round_up(n, step);
    }
  }
  return (n + kMinBlockSize - 1) & ~(kMinBlockSize - 1);
}

// The limit and the texts use this size for expandable segments too [core 5.3].
uint64_t DeviceSettings::segment_size_for(uint64_t size) const {
  if (serving_.is_on) return round_up(size, serving_.page_bytes);
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLargeAlloc) return settings_.large_segment_size;
  return round_up(size, kRoundLarge);
}

}  // namespace cachalot
