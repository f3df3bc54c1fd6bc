// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/shards/device_lock.h"

#include <utility>

#include "alloc/pools/private_pool.h"

namespace cachalot {

DeviceLock::DeviceLock(Shards& shards) : shards_(shards) {
  shards_.flags_.let_starved_go_first();
  shards_.lock_.lock();
  lock_whole();
}

DeviceLock::DeviceLock(Shards& shards, Stream stream) : shards_(shards) {
  shards_.lock_.lock();
  try {
    entry_ = &shards_.entry_for(stream);
    if (shards_.is_used_as_whole()) {
      lock_whole();
    } else {
      lock_shard(entry_->shard);
    }
  } catch (...) {
    shards_.lock_.unlock();
    throw;
  }
}

void DeviceLock::lock_shard(Shard* shard) {
  shard_ = shard;
  shard_->lock.lock();
  shards_.begin_at(*shard_);
}

void DeviceLock::unlock_shard() {
  if (Shard* const shard = std::exchange(shard_, nullptr)) shard->lock.unlock();
}

void DeviceLock::lock_whole() {
  if (whole_) return;
  unlock_shard();
  shards_.stop();
  whole_ = true;
}

void DeviceLock::unlock() {
  if (std::exchange(is_unlocked_, true)) return;
  unlock_shard();
  if (std::exchange(whole_, false)) shards_.go_on();
  if (entry_) shards_.note_vacancy(entry_);  // where the driver gave nothing
  shards_.lock_.unlock();
}

DeviceUnlock::DeviceUnlock(DeviceLock& lock, StreamEntry& entry, PrivatePool* pool)
    : lock_(lock), entry_(entry), pool_(pool), was_whole_(lock.is_whole()) {
  if (pool_) pool_->requests_under_way++;
  entry_.requests_under_way++;
  lock_.unlock();
}

DeviceUnlock::~DeviceUnlock() {
  Shards& shards = lock_.shards_;
  shards.lock_.lock();
  lock_.is_unlocked_ = false;
  if (pool_) pool_->requests_under_way--;
  entry_.requests_under_way--;
  if (was_whole_ || shards.is_used_as_whole()) {
    lock_.lock_whole();
  } else {
    lock_.lock_shard(entry_.shard);
  }
}

LongHold::LongHold(Shards& shards, Shard* shard) : shards_(shards), shard_(shard) {
  if (!shard_) return;
  shards_.peaks_.leave(shard_->account);
  shard_->lock.set_passed_over(true);
}

LongHold::~LongHold() {
  if (!shard_) return;
  shard_->lock.set_passed_over(false);
  shards_.peaks_.come_back(shard_->account);
}

}  // namespace cachalot
