// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/hold.h"

#include <thread>

#include "alloc/native/hot_path.h"
#include "base/pause.h"

namespace cachalot {
namespace {

constexpr int kSpins = 256;  // then the thread that has the shard's lock may need this core

}  // namespace

// ---- Holds

DeviceAllocator::Hold::Hold(DeviceAllocator& device) : device_(device) {
  device_.flags_.let_starved_go_first();
  device_.lock_.lock();
  take_all();
}

DeviceAllocator::Hold::Hold(DeviceAllocator& device, Stream stream) : device_(device) {
  device_.lock_.lock();
  try {
    entry_ = &device_.entry_for(stream);
    if (device_.has(kWholeDevice)) {
      take_all();
    } else {
      take_shard(entry_->shard);
    }
  } catch (...) {
    device_.lock_.unlock();
    throw;
  }
}

void DeviceAllocator::Hold::take_shard(Shard* shard) {
  shard_ = shard;
  shard_->lock.lock();
  device_.begin_at(*shard_);
}

void DeviceAllocator::Hold::let_shard_go() {
  if (Shard* const shard = std::exchange(shard_, nullptr)) shard->lock.unlock();
}

void DeviceAllocator::Hold::take_all() {
  if (whole_) return;
  let_shard_go();
  device_.stop();
  whole_ = true;
}

void DeviceAllocator::Hold::let_go() {
  if (std::exchange(is_let_go_, true)) return;
  let_shard_go();
  if (std::exchange(whole_, false)) device_.go_on();
  if (entry_) device_.streams_.note_vacancy(entry_);  // where the driver gave nothing
  device_.lock_.unlock();
}

DeviceAllocator::Unlocked::Unlocked(Hold& hold, StreamEntry& entry, PrivatePool* pool)
    : hold_(hold), entry_(entry), pool_(pool), was_whole_(hold.is_whole()) {
  if (pool_) pool_->requests_under_way++;
  entry_.requests_under_way++;
  hold_.let_go();
}

DeviceAllocator::Unlocked::~Unlocked() {
  DeviceAllocator& device = hold_.device_;
  device.lock_.lock();
  hold_.is_let_go_ = false;
  if (pool_) pool_->requests_under_way--;
  entry_.requests_under_way--;
  if (was_whole_ || device.has(kWholeDevice)) {
    hold_.take_all();
  } else {
    hold_.take_shard(entry_.shard);
  }
}

// ---- Stopping the shards

// What every call does first at a shard. Afterwards nothing is kept or open there.
void DeviceAllocator::begin_at(Shard& shard) {
  shard.lock.assert_held();
  flush(shard);
  // In this order: see Note [Reading statistics].
  const uint64_t reading = peaks_.reading();
  if (has(kReading)) Peaks::preserve(shard.account, reading);
  shard.preserves_for = has(kCopying) ? copy_number_ : 0;
}

// What a hit of a device that is used as a whole may have kept. pre: the device's lock.
void DeviceAllocator::flush_only_shard() {
  if (shards_.size() == 1 && !shards_.front()->last.is_empty()) flush(*shards_.front());
}

std::unique_lock<Lock> DeviceAllocator::lock_at(Shard& shard) {
  std::unique_lock guard(shard.lock);
  begin_at(shard);
  return guard;
}

void DeviceAllocator::visit_shards(bool for_a_move) {
  recalling_.assert_held();
  for (const auto& shard : shards_) {
    std::unique_lock guard(shard->lock, std::try_to_lock);
    // A shard that goes away during the wait may keep its lock until it comes back.
    for (int tries = 0; !guard && !shard->account.away.load(); tries++) {
      tries < kSpins ? pause_briefly(4) : std::this_thread::yield();
      guard.try_lock();
    }
    if (!guard) continue;
    begin_at(*shard);
    peaks_.visit(shard->account, for_a_move);
  }
}

// A move was refused after the recall with this number. pre: no shard's lock, except that of a shard
// that is away; the check of the lock order finds others.
void DeviceAllocator::recall_headroom(uint64_t last) {
  const std::lock_guard guard(recalling_);
  if (peaks_.is_recalled() || peaks_.recall_number() != last) return;
  peaks_.begin_recall();
  visit_shards(true);
  peaks_.end_recall();
}

// pre: no shard's lock; the check of the lock order finds it.
void DeviceAllocator::stop() {
  lock_.assert_held();
  if (has(kWholeDevice)) {  // nobody is at a shard
    flush_only_shard();
    return flags_.add(kHeld);
  }
  const std::lock_guard guard(recalling_);
  peaks_.begin_recall();
  flags_.add(kHeld);
  visit_shards(false);
  peaks_.end_recall();
}

void DeviceAllocator::go_on() {
  lock_.assert_held();
  if (has(kWholeDevice & ~kHeld)) return flags_.drop(kHeld);
  peaks_.lend_again();
  flags_.drop(kHeld);
}

// ---- Streams

// The entry of a stream; made where there is none. pre: no shard's lock. Throws std::bad_alloc.
StreamEntry& DeviceAllocator::entry_for(Stream stream) {
  lock_.assert_held();
  if (StreamEntry* const found = streams_.find(stream)) return *found;
  if (StreamEntry* const vacant = streams_.find_vacant()) {
    const std::lock_guard guard(vacant->shard->lock);
    streams_.give(vacant, stream);
    return *vacant;
  }
  Shard* const shard = shards_.size() < kMaxShards ? add_shard() : next_shard();
  return *streams_.add(shard, stream);
}

Shard* DeviceAllocator::next_shard() { return shards_[next_shard_++ % kMaxShards].get(); }

Shard* DeviceAllocator::add_shard() {
  const std::lock_guard no_recall(recalling_);
  shards_.reserve(kMaxShards);
  auto made = std::make_unique<Shard>(this);
  if (shards_.size() == 1) {
    Shard& first = *shards_.front();
    const std::lock_guard guard(first.lock);
    flush(first);
    peaks_.open_next_to_others(first.account);
  }
  peaks_.open(made->account, shards_.empty());
  return shards_.emplace_back(std::move(made)).get();
}

}  // namespace cachalot
