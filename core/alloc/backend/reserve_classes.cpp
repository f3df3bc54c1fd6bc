// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/backend/reserve_classes.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/assert.h"
#include "base/units.h"

namespace cachalot {
namespace {

// A conversion beyond the range of 64 bits would be undefined.
uint64_t saturated(double bytes) {
  CACHALOT_ASSERT(1, bytes >= 0);
  constexpr double kTooMany = 18446744073709551616.0;
  return bytes >= kTooMany ? UINT64_MAX : static_cast<uint64_t>(bytes);
}

// A number of an option is in GiB (R34).
uint64_t bytes_of(const Reserve& reserve, uint64_t total) {
  const double unit = reserve.is_fraction ? static_cast<double>(total) : static_cast<double>(GiB);
  return saturated(std::floor(reserve.value * unit));
}

}  // namespace

std::string ReserveClasses::of(Stream stream) const {
  std::lock_guard guard(lock_);
  const auto found = names_.find(stream);
  return found == names_.end() ? "" : found->second;
}

void ReserveClasses::set(Stream stream, const std::string& name) {
  std::lock_guard guard(lock_);
  if (name.empty()) {
    names_.erase(stream);
  } else {
    names_[stream] = name;
  }
}

// The class comes first, then the option for all streams, then 9/8 of the device, which is also the
// most [exp 1.4].
ReserveDecision decide_reserve(const Settings& settings, const std::string& name, uint64_t total) {
  const uint64_t full = total + total / 8;
  const auto& classes = settings.expandable_segments_reserve_by_class;
  const auto found = name.empty() ? classes.end() : classes.find(name);
  ReserveDecision decision{{}, found != classes.end(), full};
  if (found != classes.end()) {
    decision.reserve_bytes = bytes_of(found->second, total);
  } else if (settings.expandable_segments_reserve) {
    decision.reserve_bytes = bytes_of(*settings.expandable_segments_reserve, total);
  }
  if (decision.reserve_bytes) decision.segment_bytes = std::min(*decision.reserve_bytes, full);
  return decision;
}

}  // namespace cachalot
