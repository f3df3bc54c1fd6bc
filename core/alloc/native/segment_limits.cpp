// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/segment_limits.h"

#include "device/driver_error.h"

namespace cachalot {

bool SegmentLimits::is_over_limit(const AllocParams& params) const {
  return limit() != kUnlimited && device_.stats.reserved() + params.segment_size > limit();
}

// R31: the option's fraction refuses before the driver is asked. It is the option as it is now, not the
// limit that a call has set.
bool SegmentLimits::is_rejected(const AllocParams& params) const {
  if (!settings().throw_on_cudamalloc_oom) return false;
  uint64_t available = 0;
  uint64_t total = 0;
  if (driver().memory_info(device_.index, &available, &total) != kSuccess) return false;
  const double bytes = settings().per_process_memory_fraction * static_cast<double>(total);
  return device_.stats.reserved() + params.segment_size > static_cast<uint64_t>(bytes);
}

DeviceMemory SegmentLimits::device_memory() const {
  DeviceMemory memory{};
  const DriverCode code = driver().memory_info(device_.index, &memory.available, &memory.total);
  if (code != kSuccess) throw runtime_error(driver(), code);
  return memory;
}

}  // namespace cachalot
