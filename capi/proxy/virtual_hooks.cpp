// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that a program maps itself.
#include "hooks.h"
#include "real_driver.h"
#include "recorded_call.h"

using namespace cachalot::proxy;

Result cuMemCreate(AllocationHandle* out, size_t size, const AllocationProperties* properties,
                   uint64_t flags) {
  if (Server* const server = Server::get()) server->not_served(NotServed::kVirtualMemory);
  const auto create = [&] { return call_real(real().cuMemCreate, out, size, properties, flags); };
  return observe([&] { return with_room(create); },
                 [&](Recorder& recorder, Result result, const CallTime& time) {
                   if (result == 0)
                     recorder.created(*out, properties, time.cost_ns());
                   else if (result == cachalot::kDriverOutOfMemory)
                     recorder.refused({.entry = 'v', .size = size}, time);
                 });
}

Result cuMemRetainAllocationHandle(AllocationHandle* out, void* address) {
  return tell_if_done(call_real(real().cuMemRetainAllocationHandle, out, address),
                      [&](Recorder& recorder) { recorder.retained(*out); });
}

// Another thread can have the handle's number again as soon as the driver has returned.
Result cuMemRelease(AllocationHandle handle) {
  const auto call = [&] { return call_real(real().cuMemRelease, handle); };
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
  return observe([&] { return call_real(real().cuMemMap, address, size, offset, handle, flags); },
                 [&](Recorder& recorder, Result result, const CallTime& time) {
                   if (result == 0) recorder.mapped(address, size, handle, time);
                 });
}

Result cuMemSetAccess(DeviceAddress address, size_t size, const AccessDescriptor* access,
                      size_t count) {
  return observe([&] { return call_real(real().cuMemSetAccess, address, size, access, count); },
                 [&](Recorder& recorder, Result result, const CallTime& time) {
                   if (result == 0) recorder.made_accessible(address, size, time);
                 });
}

Result cuMemUnmap(DeviceAddress address, size_t size) {
  const auto call = [&] { return call_real(real().cuMemUnmap, address, size); };
  Recorder* const recorder = Recorder::get();
  if (recorder == nullptr) return call();
  const std::vector<Mapping> mappings = recorder->unmapping(address, size);
  CallTime time{};
  const Result result = timed(call, &time);
  recorder->unmapped(address, mappings, result, time);
  return result;
}

Result cuMemExportToShareableHandle(void* out, AllocationHandle handle, int type, uint64_t flags) {
  return tell_if_done(call_real(real().cuMemExportToShareableHandle, out, handle, type, flags),
                      [&](Recorder& recorder) { recorder.exported(handle); });
}
