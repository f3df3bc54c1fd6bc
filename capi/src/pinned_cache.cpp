// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pinned_cache.h"

#include <cinttypes>
#include <string>

#include "alloc/native/hot_path.h"
#include "alloc/pinned/pinned_allocator.h"
#include "base/error.h"
#include "base/text.h"
#include "device/device_count.h"

namespace cachalot::capi {
namespace {

constexpr int kDevice = 0;

// Without the words that speak of a device.
Error host_memory_error(const OutOfMemory& numbers) {
  const std::string limit =
      numbers.limit == 0 ? "" : format(", the limit is %" PRIu64, numbers.limit);
  return Error(Status::kOutOfHostMemory,
               format("out of pinned memory: %" PRIu64 " bytes were requested, %" PRIu64
                      " are reserved, of which %" PRIu64
                      " are handed out%s; the machine has %" PRIu64 " free of %" PRIu64,
                      numbers.requested, numbers.reserved, numbers.allocated, limit.c_str(),
                      numbers.device_free, numbers.device_total));
}

}  // namespace

Address PinnedCacheOfDevice::allocate(uint64_t size) {
  const HitPath& hits = core_.hits();
  if (hits.may_allocate(size, kDevice)) [[likely]] {
    const Address hit = hits.allocate_or_0(size, kDevice, PinnedDriver::kHost);
    if (hit != 0) [[likely]]
      return hit;
  }
  try {
    return core_.allocate(size, kDevice, PinnedDriver::kHost);
  } catch (const Error& error) {
    if (error.status() != Status::kOutOfMemory) throw;
    throw host_memory_error(error.numbers());
  }
}

void PinnedCacheOfDevice::free(Address address) {
  const HitPath& hits = core_.hits();
  if (address == 0 || (hits.may_free() && hits.free_if_usual(address))) return;
  require_block(address);
  core_.free(address);
}

// The core names no kind of memory.
void PinnedCacheOfDevice::require_block(Address address) {
  if (!core_.find_block(address))
    throw_invalid_argument(format("no pinned block begins at 0x%" PRIx64, address));
}

void PinnedCacheOfDevice::record_stream(Address address, int device, Stream stream) {
  require_device(device, base_.device_count());
  require_block(address);
  core_.record_stream(address, driver_.stream_of(device, base_.resolve(stream)));
}

uint64_t PinnedCacheOfDevice::size_of(Address address) {
  require_block(address);
  return core_.block(address).size;
}

void PinnedCacheOfDevice::empty_cache() { core_.empty_cache(kDevice); }

// Whichever device's: the blocks that wait name streams of all.
void PinnedCacheOfDevice::release_context() { core_.release_context(kDevice); }

PinnedStats PinnedCacheOfDevice::stats() {
  const Stats of_device = core_.stats(kDevice);
  const PinnedDriver::Times times = driver_.times();
  return {.allocations = of_device.segment.all,
          .allocated_bytes = of_device.reserved_bytes.all,
          .active_requests = of_device.active.all,
          .active_bytes = of_device.active_bytes.all,
          .allocate_times = times.allocate,
          .free_times = times.free};
}

void PinnedCacheOfDevice::reset_peak_stats() { core_.reset_peak_stats(kDevice); }

void PinnedCacheOfDevice::reset_accumulated_stats() {
  core_.reset_accumulated_stats(kDevice);
  driver_.reset_times();
}

std::optional<PinnedStats> pinned_stats_of(const cachalot_allocator& allocator) {
  if (allocator.pinned) return PinnedCacheOfDevice(allocator).stats();
  PinnedAllocator* const used = allocator.core.pinned_if_used();
  return used != nullptr ? std::optional<PinnedStats>(used->stats()) : std::nullopt;
}

}  // namespace cachalot::capi
