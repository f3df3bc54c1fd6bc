// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/pinned_memory.h"

#include <algorithm>
#include <mutex>

#include "alloc/pinned/pinned_blocks.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "device/address_range.h"
#include "device/driver_error.h"

namespace cachalot {
namespace {

// Gives an impossible range back at once.
void require_range(Driver& driver, uint64_t size, const PinnedMemory::Range& range) {
  const char* const flaw = flaw_of_range(range.address, size, PinnedBlocks::kAlignment);
  if (flaw == nullptr) return;
  if (range.address != 0) driver.host_free(range.address, range.origin);
  throw_invalid_state(format("the driver gave pinned memory that cannot be: %s %s",
                             range_text(range.address, size).c_str(), flaw));
}

}  // namespace

PinnedMemory::~PinnedMemory() {
  if (region_.begin != 0) driver_.host_free(region_.begin, region_.origin);
}

// The region first, whatever the request's pool is [pinned 2.2].
PinnedMemory::Range PinnedMemory::obtain(uint64_t size, const PinnedSettings& settings) {
  const Range range{take_from_region(size, settings), region_.origin, true};
  return range.address != 0 ? range : obtain_from_driver(size, settings);
}

void PinnedMemory::count(uint64_t size) {
  const std::lock_guard lock(stats_lock_);
  stats_.allocations.increase(1);
  stats_.allocated_bytes.increase(static_cast<int64_t>(size));
}

void PinnedMemory::undo(const Range& range) {
  if (!range.is_in_region) driver_.host_free(range.address, range.origin);
}

PinnedMemory::Range PinnedMemory::obtain_from_driver(uint64_t size,
                                                     const PinnedSettings& settings) {
  const HostMemoryOrigin origin = settings.use_cuda_host_register ? HostMemoryOrigin::kRegistered
                                                                  : HostMemoryOrigin::kAllocated;
  Range range{0, origin, false};
  DriverCode code = kSuccess;
  const int64_t microseconds = time_of([&] {
    code = driver_.host_allocate(size, origin, settings.num_register_threads, &range.address);
  });
  require_success(driver_, code);
  require_range(driver_, size, range);
  const std::lock_guard lock(stats_lock_);
  stats_.allocate_times.add(microseconds);
  return range;
}

// Looks at the option once, unless the region cannot be had.
void PinnedMemory::decide_region(const PinnedSettings& settings) {
  if (settings.reserve_segment_size != 0) {
    const Range range = obtain_from_driver(settings.reserve_segment_size, settings);
    region_.begin = region_.next = range.address;
    region_.end = range.address + settings.reserve_segment_size;
    region_.origin = range.origin;
  }
  region_.is_decided = true;
}

// 0: what is left of the region does not hold the request, or there is none.
Address PinnedMemory::take_from_region(uint64_t size, const PinnedSettings& settings) {
  const std::lock_guard lock(region_lock_);
  if (!region_.is_decided) decide_region(settings);
  if (size > region_.end - region_.next) return 0;
  const Address address = region_.next;
  region_.next += std::min(round_up(size, kRegionAlignment), region_.end - address);
  return address;
}

// Of the region no call is made, and no time is counted [pinned 2.4, 5.2].
void PinnedMemory::give_back(const Range& range, uint64_t size) {
  int64_t microseconds = 0;
  if (!range.is_in_region) {
    DriverCode code = kSuccess;
    microseconds = time_of([&] { code = driver_.host_free(range.address, range.origin); });
    require_success(driver_, code);
  }
  const std::lock_guard lock(stats_lock_);
  stats_.allocations.decrease(1);
  stats_.allocated_bytes.decrease(static_cast<int64_t>(size));
  if (!range.is_in_region) stats_.free_times.add(microseconds);
}

// ---- Statistics

void PinnedMemory::add_stats(PinnedStats* stats) {
  const std::lock_guard lock(stats_lock_);
  stats->allocations = stats_.allocations;
  stats->allocated_bytes = stats_.allocated_bytes;
  stats->allocate_times = stats_.allocate_times;
  stats->free_times = stats_.free_times;
}

void PinnedMemory::reset_peaks() {
  const std::lock_guard lock(stats_lock_);
  stats_.allocations.reset_peak();
  stats_.allocated_bytes.reset_peak();
}

void PinnedMemory::reset_accumulated() {
  const std::lock_guard lock(stats_lock_);
  stats_.allocations.reset_accumulated();
  stats_.allocated_bytes.reset_accumulated();
  stats_.allocate_times = {};
  stats_.free_times = {};
}

}  // namespace cachalot
