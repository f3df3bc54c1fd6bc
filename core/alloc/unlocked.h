// SPDX-License-Identifier: MIT OR Apache-2.0
// The time in which a call of a device lets go of its lock.
#pragma once

#include "alloc/hot_path.h"

namespace cachalot {

// Lets others at the device while this thread is busy elsewhere. The pool of the request stays
// meanwhile; hits of others are settled, as they are before every other slow step.
class DeviceAllocator::Unlocked {
 public:
  Unlocked(DeviceAllocator& device, Guard& guard, PrivatePool* pool)
      : device_(device), guard_(guard), pool_(pool) {
    if (pool_) pool_->requests_under_way++;
    guard_.unlock();
  }
  ~Unlocked() {
    guard_.lock();
    if (pool_) pool_->requests_under_way--;
    device_.settle();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  DeviceAllocator& device_;
  Guard& guard_;
  PrivatePool* pool_;
};

}  // namespace cachalot
