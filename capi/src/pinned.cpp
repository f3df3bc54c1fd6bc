// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned host memory.
#include "cachalot/pinned.h"

#include "alloc/pinned/pinned_allocator.h"
#include "core_of.h"
#include "device/device_count.h"
#include "pinned_cache.h"
#include "pool_filter.h"
#include "values.h"

namespace cachalot::capi {
namespace {

static_assert(sizeof(cachalot_call_times) == sizeof(CallTimes));
static_assert(offsetof(cachalot_call_times, total) == offsetof(CallTimes, total));
static_assert(offsetof(cachalot_call_times, max) == offsetof(CallTimes, max));

Address address_of(const void* memory) { return reinterpret_cast<Address>(memory); }

cachalot_call_times write_times(const CallTimes& times) {
  return {.count = times.count, .total = times.total, .min = times.min, .max = times.max};
}

cachalot_pinned_stats write_pinned_stats(const PinnedStats& stats) {
  return {.struct_size = sizeof(cachalot_pinned_stats),
          .allocations = write_stat(stats.allocations),
          .allocated_bytes = write_stat(stats.allocated_bytes),
          .active_requests = write_stat(stats.active_requests),
          .active_bytes = write_stat(stats.active_bytes),
          .allocate_times = write_times(stats.allocate_times),
          .free_times = write_times(stats.free_times)};
}

// Apart, so that a call of the other one makes no room for it.
template <class Call>
[[gnu::noinline]] auto with_cache(cachalot_allocator& allocator, Call call) {
  PinnedCacheOfDevice cache(allocator);
  return call(cache);
}

// What `call` gives for the one that the allocator has: PyTorch's allocator of pinned memory, or a cache like that of a
// device.
template <class Call>
[[gnu::always_inline]] inline auto with_pinned(cachalot_allocator* allocator, Call call) {
  cachalot_allocator& live = require(allocator, "allocator");
  if (!live.pinned) [[likely]]
    return call(live.core.pinned());
  return with_cache(live, call);
}

[[gnu::always_inline]] inline Address allocate_from(PinnedAllocator& pinned, uint64_t size,
                                                    int device, Stream stream) {
  return pinned.allocate(size, device, stream);
}
Address allocate_from(PinnedCacheOfDevice& cache, uint64_t size, int, Stream) {
  return cache.allocate(size);
}

// pre: the stream is resolved.
[[gnu::always_inline]] inline void allocate(cachalot_allocator* allocator, uint64_t size,
                                            int32_t device, Stream stream, void** out_memory) {
  with_pinned(
      allocator, [=](auto& pinned) __attribute__((always_inline)) {
        void*& out = require(out_memory, "out_memory");
        out = reinterpret_cast<void*>(allocate_from(pinned, size, device, stream));
      });
}

// PyTorch's allocator of pinned memory, for what the other one does not have.
PinnedAllocator& pools_of(cachalot_allocator* allocator) {
  if (require(allocator, "allocator").pinned)
    throw_not_supported("pools of pinned memory are PyTorch's: pinned_config leaves them out");
  return allocator->core.pinned();
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_pinned_allocate(cachalot_allocator* allocator, uint64_t size,
                                         void** out_memory, cachalot_error* error) {
  return guard(error, [&] { allocate(allocator, size, 0, 0, out_memory); });
}

cachalot_status cachalot_pinned_allocate_on_stream(cachalot_allocator* allocator, uint64_t size,
                                                   int32_t device, cachalot_stream current_stream,
                                                   void** out_memory, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require_device(device, core.device_count());
    allocate(allocator, size, device, core.driver().resolve(current_stream), out_memory);
  });
}

cachalot_status cachalot_pinned_free(cachalot_allocator* allocator, void* memory,
                                     cachalot_error* error) {
  return guard(error, [&] {
    with_pinned(
        allocator, [=](auto& pinned)
                       __attribute__((always_inline)) { pinned.free(address_of(memory)); });
  });
}

cachalot_status cachalot_pinned_record_stream(cachalot_allocator* allocator, void* memory,
                                              int32_t device, cachalot_stream stream,
                                              cachalot_error* error) {
  return guard(error, [&] {
    with_pinned(allocator,
                [&](auto& pinned) { pinned.record_stream(address_of(memory), device, stream); });
  });
}

cachalot_status cachalot_pinned_size(cachalot_allocator* allocator, void* memory,
                                     uint64_t* out_size, cachalot_error* error) {
  return guard(error, [&] {
    core_of(allocator);
    uint64_t& out = require(out_size, "out_size");
    out = with_pinned(allocator, [&](auto& pinned) { return pinned.size_of(address_of(memory)); });
  });
}

cachalot_status cachalot_pinned_empty_cache(cachalot_allocator* allocator, cachalot_error* error) {
  return guard(error, [&] { with_pinned(allocator, [](auto& pinned) { pinned.empty_cache(); }); });
}

cachalot_status cachalot_pinned_get_stats(cachalot_allocator* allocator,
                                          cachalot_pinned_stats* out_stats, cachalot_error* error) {
  return guard(error, [&] {
    const PinnedStats stats = with_pinned(allocator, [](auto& pinned) { return pinned.stats(); });
    write_struct(out_stats, write_pinned_stats(stats), "out_stats");
  });
}

cachalot_status cachalot_pinned_reset_peak_stats(cachalot_allocator* allocator,
                                                 cachalot_error* error) {
  return guard(error,
               [&] { with_pinned(allocator, [](auto& pinned) { pinned.reset_peak_stats(); }); });
}

cachalot_status cachalot_pinned_reset_accumulated_stats(cachalot_allocator* allocator,
                                                        cachalot_error* error) {
  return guard(error, [&] {
    with_pinned(allocator, [](auto& pinned) { pinned.reset_accumulated_stats(); });
  });
}

cachalot_status cachalot_pinned_pool_begin(cachalot_allocator* allocator, int32_t device,
                                           cachalot_pool_id id, const cachalot_pool_route* route,
                                           cachalot_error* error) {
  return guard(error, [&] {
    const CallerRoute in(route);
    Allocator& core = core_of(allocator);
    require_device(device, core.device_count());
    pools_of(allocator).pool_begin(read_pool_id(id), in.filter(core.driver(), device));
  });
}

cachalot_status cachalot_pinned_pool_end(cachalot_allocator* allocator, cachalot_pool_id id,
                                         cachalot_error* error) {
  return guard(error, [&] { pools_of(allocator).pool_end(read_pool_id(id)); });
}

cachalot_status cachalot_pinned_pool_release(cachalot_allocator* allocator, cachalot_pool_id id,
                                             cachalot_error* error) {
  return guard(error, [&] { pools_of(allocator).pool_release(read_pool_id(id)); });
}

cachalot_allocator* cachalot_pinned_allocator(const cachalot_allocator* allocator) {
  return live_or_null(allocator) ? allocator->pinned.get() : nullptr;
}
