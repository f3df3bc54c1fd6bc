// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/pinned_driver.h"

#include <sys/sysinfo.h>

#include <mutex>

#include "base/assert.h"

namespace cachalot {
namespace {

constexpr int kOnlyDevice = 0;
constexpr Stream kFirstName = PinnedDriver::kHost + 1;

}  // namespace

// ---- Memory

DriverCode PinnedDriver::memory_info(int, uint64_t* free_bytes, uint64_t* total_bytes) {
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return kDriverNotSupported;
  *free_bytes = uint64_t{machine.freeram} * machine.mem_unit;
  *total_bytes = uint64_t{machine.totalram} * machine.mem_unit;
  return kSuccess;
}

DriverCode PinnedDriver::allocate(int, uint64_t size, Address* address) {
  DriverCode code = kSuccess;
  const int64_t microseconds = time_of(
      [&] { code = driver_->host_allocate(size, HostMemoryOrigin::kAllocated, 1, address); });
  const std::lock_guard lock(lock_);
  if (code == kSuccess) times_.allocate.add(microseconds);
  return code;
}

DriverCode PinnedDriver::free(int, Address address) {
  DriverCode code = kSuccess;
  const int64_t microseconds =
      time_of([&] { code = driver_->host_free(address, HostMemoryOrigin::kAllocated); });
  const std::lock_guard lock(lock_);
  if (code == kSuccess) times_.free.add(microseconds);
  return code;
}

PinnedDriver::Times PinnedDriver::times() {
  const std::lock_guard lock(lock_);
  return times_;
}

void PinnedDriver::reset_times() {
  const std::lock_guard lock(lock_);
  times_ = {};
}

// ---- Streams

Stream PinnedDriver::stream_of(int device, Stream stream) {
  if (device == 0) return stream;
  const std::lock_guard lock(lock_);
  const auto found = names_.find({device, stream});
  if (found != names_.end()) return found->second;
  named_.push_back({device, stream});
  const Stream name = kFirstName + named_.size() - 1;
  names_[{device, stream}] = name;
  return name;
}

PinnedDriver::Place PinnedDriver::place_of(Stream stream) {
  const std::lock_guard lock(lock_);
  if (stream < kFirstName || stream - kFirstName >= named_.size()) return {0, stream};
  return named_[stream - kFirstName];
}

DriverCode PinnedDriver::stream_synchronize(int, Stream stream) {
  if (stream == kHost) return kSuccess;
  const Place place = place_of(stream);
  return driver_->stream_synchronize(place.device, place.handle);
}

DriverCode PinnedDriver::device_synchronize(int) {
  for (int device = 0; device < driver_->device_count(); device++) {
    if (const DriverCode code = driver_->device_synchronize(device)) return code;
  }
  return kSuccess;
}

// ---- Events

DriverCode PinnedDriver::event_create(int, uint64_t* event) {
  const std::lock_guard lock(lock_);
  events_[++events_made_] = {};
  *event = events_made_;
  return kSuccess;
}

PinnedDriver::Place PinnedDriver::place_of_event(uint64_t event) {
  const std::lock_guard lock(lock_);
  CACHALOT_ASSERT(1, events_.count(event) == 1);
  return events_[event];
}

DriverCode PinnedDriver::event_destroy(int, uint64_t event) {
  const Place place = place_of_event(event);
  {
    const std::lock_guard lock(lock_);
    events_.erase(event);
  }
  return place.handle == 0 ? kSuccess : driver_->event_destroy(place.device, place.handle);
}

DriverCode PinnedDriver::event_record(int, uint64_t event, Stream stream) {
  if (stream == kHost) return kSuccess;
  const Place of_stream = place_of(stream);
  Place place = place_of_event(event);
  if (place.handle == 0 || place.device != of_stream.device) {
    Place made{of_stream.device, 0};
    if (const DriverCode code = driver_->event_create(made.device, &made.handle)) return code;
    if (place.handle != 0) driver_->event_destroy(place.device, place.handle);
    place = made;
    const std::lock_guard lock(lock_);
    events_[event] = place;
  }
  return driver_->event_record(place.device, place.handle, of_stream.handle);
}

DriverCode PinnedDriver::event_query(int, uint64_t event) {
  const Place place = place_of_event(event);
  return place.handle == 0 ? kSuccess : driver_->event_query(place.device, place.handle);
}

DriverCode PinnedDriver::event_synchronize(int, uint64_t event) {
  const Place place = place_of_event(event);
  return place.handle == 0 ? kSuccess : driver_->event_synchronize(place.device, place.handle);
}

// ---- Captures

DriverCode PinnedDriver::capture_info(int, Stream stream, CaptureInfo* info) {
  if (stream == kHost) {
    *info = {};
    return kSuccess;
  }
  const Place place = place_of(stream);
  return driver_->capture_info(place.device, place.handle, info);
}

DriverCode PinnedDriver::node_dependencies(int, uint64_t node, std::vector<uint64_t>* nodes) {
  return driver_->node_dependencies(kOnlyDevice, node, nodes);
}

DriverCode PinnedDriver::exchange_capture_mode(int, int32_t* mode) {
  return driver_->exchange_capture_mode(kOnlyDevice, mode);
}

}  // namespace cachalot
