// SPDX-License-Identifier: MIT OR Apache-2.0
// The way of a hit: from an allocator straight to the native backend's devices and tables, past the
// interfaces of backend.h. The functions are inline and stand in hot_path.h.
//
// An allocator has one by value, so that a hit loads no pointer to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.h"

namespace cachalot {

class DeviceAllocator;
class SharedState;

// Closed at first, and for good where the backend has no hits.
class HitPath {
 public:
  // A request or a free in the usual case. 0, false: it is not the usual case, and nothing has
  // changed.
  Address try_allocate(uint64_t size, int device, Stream stream) const;
  bool try_free(Address address) const;

  // Before the first open(). devices[0] to the last one and `shared` outlive the path.
  void lead_to(const std::unique_ptr<DeviceAllocator>* devices, const SharedState* shared) {
    devices_ = devices;
    shared_ = shared;
  }
  // From any thread; a call that is under way may take the path after close().
  void open(size_t device_count) { device_count_.store(static_cast<uint32_t>(device_count)); }
  void close() { device_count_.store(0); }

 private:
  std::atomic<uint32_t> device_count_{0};  // 0: closed, each call takes the general path
  const std::unique_ptr<DeviceAllocator>* devices_ = nullptr;
  const SharedState* shared_ = nullptr;
};

}  // namespace cachalot
