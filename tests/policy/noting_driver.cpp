// SPDX-License-Identifier: MIT OR Apache-2.0
#include "noting_driver.h"

#include "base/text.h"

namespace cachalot::policy_model {

std::string text_of(const Call& call) {
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  return format("%s %llx %llx %llx -> %d", call.name, number(call.first), number(call.second),
                number(call.third), call.code);
}

DriverCode NotingDriver::note(const char* name, DriverCode code, uint64_t first, uint64_t second,
                              uint64_t third) {
  calls_.push_back({name, first, second, third, code});
  return code;
}

// ---- Memory

DriverCode NotingDriver::reserve(int device, uint64_t size, Address* address) {
  const DriverCode code = SimDriver::reserve(device, size, address);
  return note("reserve", code, size, code == kSuccess ? *address : 0);
}

DriverCode NotingDriver::unreserve(int device, Address address, uint64_t size) {
  return note("unreserve", SimDriver::unreserve(device, address, size), address, size);
}

DriverCode NotingDriver::create(int device, uint64_t size, HandleType type, bool rdma,
                                uint64_t* handle) {
  const DriverCode code = SimDriver::create(device, size, type, rdma, handle);
  return note("create", code, size, code == kSuccess ? *handle : 0);
}

DriverCode NotingDriver::release(int device, uint64_t handle) {
  return note("release", SimDriver::release(device, handle), handle);
}

DriverCode NotingDriver::map(int device, Address address, uint64_t size, uint64_t handle) {
  return note("map", SimDriver::map(device, address, size, handle), address, size, handle);
}

DriverCode NotingDriver::unmap(int device, Address address, uint64_t size) {
  return note("unmap", SimDriver::unmap(device, address, size), address, size);
}

DriverCode NotingDriver::set_access(int device, Address address, uint64_t size,
                                    int accessing_device) {
  return note("access", SimDriver::set_access(device, address, size, accessing_device), address,
              size);
}

// ---- Events and waits

DriverCode NotingDriver::event_create(int device, uint64_t* event) {
  const DriverCode code = SimDriver::event_create(device, event);
  return note("event_create", code, code == kSuccess ? *event : 0);
}

DriverCode NotingDriver::event_destroy(int device, uint64_t event) {
  return note("event_destroy", SimDriver::event_destroy(device, event), event);
}

DriverCode NotingDriver::event_record(int device, uint64_t event, Stream stream) {
  return note("event_record", SimDriver::event_record(device, event, stream), event, stream);
}

DriverCode NotingDriver::event_record_all(int device, uint64_t event) {
  return note("event_record_all", SimDriver::event_record_all(device, event), event);
}

DriverCode NotingDriver::event_query(int device, uint64_t event) {
  return note("event_query", SimDriver::event_query(device, event), event);
}

DriverCode NotingDriver::event_synchronize(int device, uint64_t event) {
  return note("event_sync", SimDriver::event_synchronize(device, event), event);
}

DriverCode NotingDriver::stream_synchronize(int device, Stream stream) {
  return note("stream_sync", SimDriver::stream_synchronize(device, stream), stream);
}

DriverCode NotingDriver::device_synchronize(int device) {
  return note("device_sync", SimDriver::device_synchronize(device), 0);
}

DriverCode NotingDriver::stream_wait_event(int device, Stream stream, uint64_t event) {
  return note("stream_wait", SimDriver::stream_wait_event(device, stream, event), stream, event);
}

}  // namespace cachalot::policy_model
