// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that a program maps itself.
#include "hooks.h"
#include "mapping_cache.h"
#include "real_driver.h"
#include "recorded_call.h"

using namespace cachalot::proxy;

namespace {

// Null: the driver is to be asked.
MappingCache* cache() {
  Server* const server = Server::get();
  return server != nullptr ? server->mappings() : nullptr;
}

// cached: a call of the cache. call: the driver's.
template <class Cached, class Call>
Result cached_or(Cached cached, Call call) {
  MappingCache* const present = cache();
  return present != nullptr ? cached(*present) : call();
}

// The program makes a use of its memory that no cache can see the end of.
template <class... Arguments>
void leave(void (MappingCache::*what)(Arguments...), Arguments... arguments) {
  if (MappingCache* const present = cache()) (present->*what)(arguments...);
}

}  // namespace

Result cuMemAddressReserve(DeviceAddress* out, size_t size, size_t alignment, DeviceAddress hint,
                           uint64_t flags) {
  return with_room([&] {
    return cached_or(
        [&](MappingCache& present) { return present.reserve(out, size, alignment, hint, flags); },
        [&] { return call_real(real().cuMemAddressReserve, out, size, alignment, hint, flags); });
  });
}

Result cuMemAddressFree(DeviceAddress address, size_t size) {
  return cached_or([&](MappingCache& present) { return present.free_range(address, size); },
                   [&] { return call_real(real().cuMemAddressFree, address, size); });
}

Result cuMemCreate(AllocationHandle* out, size_t size, const AllocationProperties* properties,
                   uint64_t flags) {
  Server* const server = Server::get();
  MappingCache* const present = server != nullptr ? server->mappings_for_request() : nullptr;
  const auto create = [&] {
    return present != nullptr ? present->create(out, size, properties, flags)
                              : call_real(real().cuMemCreate, out, size, properties, flags);
  };
  std::optional<DeviceOrdinal> device;
  if (properties != nullptr && properties->location.type == cachalot::cuda::kLocationTypeDevice)
    device = properties->location.id;
  return observe([&] { return with_room(create, device); },
                 [&](Recorder& recorder, Result result, const CallTime& time) {
                   if (result == 0)
                     recorder.created(*out, properties, time.cost_ns());
                   else if (result == cachalot::kDriverOutOfMemory)
                     recorder.refused({.entry = 'v', .size = size}, time);
                 });
}

Result cuMemRetainAllocationHandle(AllocationHandle* out, void* address) {
  leave(&MappingCache::leave_range, reinterpret_cast<DeviceAddress>(address), uint64_t{1});
  return tell_if_done(call_real(real().cuMemRetainAllocationHandle, out, address),
                      [&](Recorder& recorder) { recorder.retained(*out); });
}

// Another thread can have the handle's number again as soon as the driver has returned.
Result cuMemRelease(AllocationHandle handle) {
  const auto call = [&] {
    return cached_or([&](MappingCache& present) { return present.release(handle); },
                     [&] { return call_real(real().cuMemRelease, handle); });
  };
  Recorder* const recorder = Recorder::get();
  if (recorder == nullptr) return call();
  const cachalot::Address address = recorder->releasing(handle);
  CallTime time{};
  const Result result = timed(call, &time);
  if (result != 0) recorder->retained(handle);
  recorder->released(address, 'v', time);
  return result;
}

Result cuMemMap(DeviceAddress address, size_t size, size_t offset, AllocationHandle handle,
                uint64_t flags) {
  const auto call = [&] {
    return cached_or(
        [&](MappingCache& present) { return present.map(address, size, offset, handle, flags); },
        [&] { return call_real(real().cuMemMap, address, size, offset, handle, flags); });
  };
  return observe([&] { return with_room(call); },
                 [&](Recorder& recorder, Result result, const CallTime& time) {
                   if (result == 0) recorder.mapped(address, size, handle, time);
                 });
}

Result cuMemSetAccess(DeviceAddress address, size_t size, const AccessDescriptor* access,
                      size_t count) {
  const auto call = [&] {
    return cached_or(
        [&](MappingCache& present) { return present.set_access(address, size, access, count); },
        [&] { return call_real(real().cuMemSetAccess, address, size, access, count); });
  };
  return observe([&] { return with_room(call); },
                 [&](Recorder& recorder, Result result, const CallTime& time) {
                   if (result == 0) recorder.made_accessible(address, size, time);
                 });
}

Result cuMemUnmap(DeviceAddress address, size_t size) {
  const auto call = [&] {
    return cached_or([&](MappingCache& present) { return present.unmap(address, size); },
                     [&] { return call_real(real().cuMemUnmap, address, size); });
  };
  Recorder* const recorder = Recorder::get();
  if (recorder == nullptr) return call();
  const std::vector<Mapping> mappings = recorder->unmapping(address, size);
  CallTime time{};
  const Result result = timed(call, &time);
  recorder->unmapped(address, mappings, result, time);
  return result;
}

// ---- Others get the memory too

Result cuMemExportToShareableHandle(void* out, AllocationHandle handle, int type, uint64_t flags) {
  leave(&MappingCache::leave, handle);
  return tell_if_done(call_real(real().cuMemExportToShareableHandle, out, handle, type, flags),
                      [&](Recorder& recorder) { recorder.exported(handle); });
}

Result cuMemGetHandleForAddressRange(void* out, DeviceAddress address, size_t size, int type,
                                     uint64_t flags) {
  leave(&MappingCache::leave_range, address, uint64_t{size});
  return call_real(real().cuMemGetHandleForAddressRange, out, address, size, type, flags);
}

Result cuMulticastBindMem(AllocationHandle object, size_t offset, AllocationHandle handle,
                          size_t handle_offset, size_t size, uint64_t flags) {
  leave(&MappingCache::leave, handle);
  return call_real(real().cuMulticastBindMem, object, offset, handle, handle_offset, size, flags);
}
Result cuMulticastBindMem_v2(AllocationHandle object, DeviceOrdinal device, size_t offset,
                             AllocationHandle handle, size_t handle_offset, size_t size,
                             uint64_t flags) {
  leave(&MappingCache::leave, handle);
  return call_real(real().cuMulticastBindMem_v2, object, device, offset, handle, handle_offset,
                   size, flags);
}

Result cuMulticastBindAddr(AllocationHandle object, size_t offset, DeviceAddress address,
                           size_t size, uint64_t flags) {
  leave(&MappingCache::leave_range, address, uint64_t{size});
  return call_real(real().cuMulticastBindAddr, object, offset, address, size, flags);
}
Result cuMulticastBindAddr_v2(AllocationHandle object, DeviceOrdinal device, size_t offset,
                              DeviceAddress address, size_t size, uint64_t flags) {
  leave(&MappingCache::leave_range, address, uint64_t{size});
  return call_real(real().cuMulticastBindAddr_v2, object, device, offset, address, size, flags);
}

// Sparse arrays have handles in lists.
Result cuMemMapArrayAsync(ArrayMapping* list, unsigned count, StreamHandle stream) {
  leave(&MappingCache::stop);
  return call_real(real().cuMemMapArrayAsync, list, count, stream);
}
Result cuMemMapArrayAsync_ptsz(ArrayMapping* list, unsigned count, StreamHandle stream) {
  leave(&MappingCache::stop);
  return call_real(real().cuMemMapArrayAsync_ptsz, list, count, stream);
}
