// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/shards/device_lock.h"

#include <utility>

#include "alloc/pools/private_pool.h"

namespace cachalot {

// Threads that earlier holds have kept from their shards go first (Note [Starved threads]).
DeviceLock::DeviceLock(Shards& shards) : shards_(shards) {
  shards_.flags_.let_starved_go_first();
  shards_.lock_.lock();
  lock_whole();
}

// The entry is looked up under the device's lock, which keeps it with its stream.
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

// The shard's lock goes first, since stop() visits all shards in their order. So the blocks of the
// shard may change in between.
void DeviceLock::lock_whole() {
  if (whole_) return;
  unlock_shard();
  shards_.stop();
  whole_ = true;
}

// In the reverse order. A second call does nothing, so that a caller can unlock early and let the
// destructor run.
void DeviceLock::unlock() {
  if (std::exchange(is_unlocked_, true)) return;
  unlock_shard();
  if (std::exchange(whole_, false)) shards_.go_on();
  if (entry_) shards_.note_vacancy(entry_);  // where the driver gave nothing
  shards_.lock_.unlock();
}

DeviceUnlock::DeviceUnlock(DeviceLock& lock, StreamEntry& entry, PrivatePool* pool)
    : lock_(lock), entry_(entry), pool_(pool), was_whole_(lock.is_whole()) {
  // Under the lock, so that no release finds the pool or the entry unused.
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
  // A flag may have been set meanwhile, after which a shard alone is not enough.
  if (was_whole_ || shards.is_used_as_whole()) {
    lock_.lock_whole();
  } else {
    lock_.lock_shard(entry_.shard);
  }
}

LongHold::LongHold(Shards& shards, Shard* shard) : shards_(shards), shard_(shard) {
  if (!shard_) return;
  // The headroom goes back first: a recall that passes the shard over would otherwise miss it.
  shards_.peaks_.leave(shard_->account);
  shard_->lock.set_passed_over(true);
}

LongHold::~LongHold() {
  if (!shard_) return;
  shard_->lock.set_passed_over(false);
  shards_.peaks_.come_back(shard_->account);
}

}  // namespace cachalot
