// SPDX-License-Identifier: MIT OR Apache-2.0
// How much of a device a call locks while it runs: see Note [Shards] in shard.h.
#pragma once

#include "alloc/shards/shards.h"

namespace cachalot {

struct PrivatePool;

// Locks the whole device, or the device's lock with one shard. Unlocks at its end.
class DeviceLock {
 public:
  // The whole device.
  explicit DeviceLock(Shards& shards);
  // The device's lock, and of its shards that of one stream; the whole device where a flag asks for
  // it. Throws std::bad_alloc.
  DeviceLock(Shards& shards, Stream stream);
  ~DeviceLock() { unlock(); }
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;

  bool is_whole() const { return whole_; }
  // The one shard; null for the whole device.
  Shard* shard() const { return shard_; }
  // Of the stream that the lock was made for.
  StreamEntry& entry() const { return *entry_; }
  // Locks the whole device. Unlocks the shard on the way, so what was found there may have changed.
  void lock_whole();
  void unlock();

 private:
  friend class DeviceUnlock;

  void lock_shard(Shard* shard);
  void unlock_shard();

  Shards& shards_;
  StreamEntry* entry_ = nullptr;
  Shard* shard_ = nullptr;
  bool whole_ = false;
  bool is_unlocked_ = false;
};

// Unlocks a DeviceLock while this thread is in the driver or in a callback. The pool of the request and
// the entry of its stream stay meanwhile.
class DeviceUnlock {
 public:
  DeviceUnlock(DeviceLock& lock, StreamEntry& entry, PrivatePool* pool);
  ~DeviceUnlock();
  DeviceUnlock(const DeviceUnlock&) = delete;
  DeviceUnlock& operator=(const DeviceUnlock&) = delete;

 private:
  DeviceLock& lock_;
  StreamEntry& entry_;
  PrivatePool* pool_;
  const bool was_whole_;
};

// Marks a shard whose lock is held for long, since the driver works for it: recalls of headroom pass
// over the shard, and threads that want its lock sleep.
class LongHold {
 public:
  // Null: the whole device is locked.
  LongHold(Shards& shards, Shard* shard);
  ~LongHold();
  LongHold(const LongHold&) = delete;
  LongHold& operator=(const LongHold&) = delete;

 private:
  Shards& shards_;
  Shard* const shard_;
};

// Takes a step at a shard, again and again until the counters agree. False: the step needs the device.
template <class TakeStep>
bool Shards::with_headroom(Shard& shard, TakeStep step) {
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

// The same for a step that is taken while the shard is locked with the device: its lock is kept, so
// that no other call sees a block that is in no set.
template <class TakeStep>
void Shards::with_headroom_of_locked(Shard& shard, TakeStep step) {
  while (step() == Step::kRefused) {
    const uint64_t recall_number = peaks_.recall_number();
    const LongHold long_hold(*this, &shard);
    recall_headroom(recall_number);
  }
}

// One block is looked at, under its shard's lock where that is enough.
template <class Look>
auto Shards::look_at(Shard& shard, Look look) {
  while (flags_.wait_while_held()) {
    const std::lock_guard guard(shard.lock);
    if (!has(kWholeDevice)) return look();
  }
  const DeviceLock lock(*this);
  return look();
}

}  // namespace cachalot
