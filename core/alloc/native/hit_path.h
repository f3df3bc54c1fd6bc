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

#include "alloc/config/constants.h"
#include "device/device.h"

namespace cachalot {

class DeviceAllocator;
class SharedState;

// Whether a hit waits where another thread has what it needs. A miss keeps its shard during its calls of the
// driver, so a caller with a lock that the driver may need forbids it: the call is no hit then.
enum class Waiting { kAllowed, kForbidden };

// Note [Two ways of a hit]
// Rationale: the serving policy's hits look at a flag and stamp what is freed. A hit of the reference's policy
// takes no instruction for that.
// Approach: a path is open for hits of one policy. A call first looks whether the reference's is open, which
// it does anyway as a check of the device's index; where it is not, a function of its own looks for the other.

// Closed at first, and for good where the backend has no hits.
class HitPath {
 public:
  // A request or a free in the usual case. 0, false: it is not the usual case, and nothing has
  // changed.
  template <Waiting waiting = Waiting::kAllowed>
  Address try_allocate(uint64_t size, int device, Stream stream) const;
  template <Waiting waiting = Waiting::kAllowed>
  bool try_free(Address address) const;

  // ---- The same in two steps, for callers that go on elsewhere where a hit is out of the question.
  bool may_allocate(uint64_t size, int device) const {
    return is_usual(size, device, device_count_);
  }
  bool may_free() const { return device_count_.load(std::memory_order_relaxed) != 0; }
  // pre: it may.
  template <Waiting waiting = Waiting::kAllowed>
  Address allocate_or_0(uint64_t size, int device, Stream stream) const;
  template <Waiting waiting = Waiting::kAllowed>
  bool free_if_usual(Address address) const;
  // Under the serving policy; these look themselves whether they may.
  template <Waiting waiting = Waiting::kAllowed>
  Address try_allocate_serving(uint64_t size, int device, Stream stream) const;
  template <Waiting waiting = Waiting::kAllowed>
  bool try_free_serving(Address address) const;

  // Before the first open(). devices[0] to the last one and `shared` outlive the path.
  void lead_to(const std::unique_ptr<DeviceAllocator>* devices, const SharedState* shared) {
    devices_ = devices;
    shared_ = shared;
  }
  // From any thread; a call that is under way may take the path after close().
  void open(size_t device_count, bool is_serving) {
    (is_serving ? serving_count_ : device_count_).store(static_cast<uint32_t>(device_count));
  }
  void close() {
    device_count_.store(0);
    serving_count_.store(0);
  }

 private:
  using Count = std::atomic<uint32_t>;

  static bool is_usual(uint64_t size, int device, const Count& count) {
    return static_cast<uint32_t>(device) < count.load(std::memory_order_relaxed) &&
           size - 1 < kTooLarge - 1;
  }

  Count device_count_{0};   // 0: closed, each call takes the general path
  Count serving_count_{0};  // the same for hits of the serving policy; one of the two is 0
  const std::unique_ptr<DeviceAllocator>* devices_ = nullptr;
  const SharedState* shared_ = nullptr;
};

}  // namespace cachalot
