// SPDX-License-Identifier: MIT OR Apache-2.0
// What a call has of the device while it runs: see Note [Shards] in shard.h.
#pragma once

#include <mutex>

#include "alloc/native/device_allocator.h"

namespace cachalot {

class DeviceAllocator::Hold {
 public:
  // The whole device.
  explicit Hold(DeviceAllocator& device);
  // The device's lock, and of its shards that of one stream; the whole device where a flag asks for
  // it. Throws std::bad_alloc.
  Hold(DeviceAllocator& device, Stream stream);
  ~Hold() { let_go(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  bool is_whole() const { return whole_; }
  // The one shard; null for the whole device.
  Shard* shard() const { return shard_; }
  // Of the stream that the hold was made for.
  StreamEntry& entry() const { return *entry_; }
  // Takes the whole device. Unlocks the shard on the way, so what was found there may have changed.
  void take_all();
  void let_go();

 private:
  friend class Unlocked;

  void take_shard(Shard* shard);
  void let_shard_go();

  DeviceAllocator& device_;
  StreamEntry* entry_ = nullptr;
  Shard* shard_ = nullptr;
  bool whole_ = false;
  bool is_let_go_ = false;
};

// Unlocks the device while this thread is in the driver or in a callback. The pool of the request and
// the entry of its stream stay meanwhile.
class DeviceAllocator::Unlocked {
 public:
  Unlocked(Hold& hold, StreamEntry& entry, PrivatePool* pool);
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Hold& hold_;
  StreamEntry& entry_;
  PrivatePool* pool_;
  const bool was_whole_;
};

// While the driver works for one shard, no recall of headroom waits for that shard.
class DeviceAllocator::Away {
 public:
  // Null: the whole device is held.
  Away(DeviceAllocator& device, Shard* shard) : device_(device), shard_(shard) {
    if (!shard_) return;
    device_.peaks_.leave(shard_->account);
    shard_->lock.set_passed_over(true);
  }
  ~Away() {
    if (!shard_) return;
    shard_->lock.set_passed_over(false);
    device_.peaks_.come_back(shard_->account);
  }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  DeviceAllocator& device_;
  Shard* const shard_;
};

// Takes a step at a shard, again and again until the counters agree. False: the step needs the device.
template <class TakeStep>
bool DeviceAllocator::with_headroom(Shard& shard, TakeStep step) {
  while (flags_.wait_while_held()) {
    const uint64_t recall_number = peaks_.recall_number();
    {
      const std::lock_guard guard(shard.lock);
      if (has(kWholeDevice)) continue;
      begin_at(shard);
      const Step taken = step();
      if (taken != Step::kRefused) return taken == Step::kDone;
    }
    recall_headroom(recall_number);
  }
  return false;
}

// The same for a step that is taken while the shard is held with the device: its lock is kept, so that
// no other call sees a block that is in no set. The recall passes over the shard, which is marked away.
template <class TakeStep>
void DeviceAllocator::with_headroom_of_held(Shard& shard, TakeStep step) {
  while (step() == Step::kRefused) {
    const uint64_t recall_number = peaks_.recall_number();
    const Away away(*this, &shard);
    recall_headroom(recall_number);
  }
}

// One block is looked at, under its shard's lock where that is enough.
template <class Look>
auto DeviceAllocator::look_at(Shard& shard, Look look) {
  while (flags_.wait_while_held()) {
    const std::lock_guard guard(shard.lock);
    if (!has(kWholeDevice)) return look();
  }
  const Hold hold(*this);
  return look();
}

}  // namespace cachalot
