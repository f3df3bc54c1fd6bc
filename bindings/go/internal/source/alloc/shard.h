// SPDX-License-Identifier: MIT OR Apache-2.0
// Shards: what one stream uses of a device, under a lock of its own.
//
// Note [Shards]
// Rationale: requests of different streams never share a free block, so they need not wait for each
// other either; only what is counted goes over all streams.
// Approach: all blocks of a segment belong to the shard of its stream for life. A hit or a usual free
// takes that shard's lock only. Who needs more takes the device's lock first; with it, one shard more
// (a miss: the others go on), or the whole device: it sets kHeld, and visits every shard once under
// its lock, after which everybody who comes sees the duty and waits for the device's lock. While a
// duty of kWholeDevice is set, that lock alone is enough.
// Lock order: the device's lock, the collector's, one shard's, the order lock (peaks.h). Who has a
// shard's lock takes no other shard's, nor the locks before it.
// A shard stays with its device; one without memory is given to the next new stream. So its lock can
// be taken by whoever finds it, and `stream` is looked at again then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "alloc/block_pool.h"
#include "alloc/kept_free.h"
#include "alloc/peaks.h"
#include "base/lock.h"

namespace cachalot {

class DeviceAllocator;

struct alignas(64) Shard {
  Shard(DeviceAllocator* owner, Stream of) : stream(of), device(owner) {}

  Lock lock;
  std::atomic<Stream> stream;
  DeviceAllocator* const device;
  std::array<Shelf*, 2> default_shelves{};  // of the default pools, by is_small; null: none yet
  Block* spare_blocks = nullptr;
  KeptFree last;
  Account account;
  uint32_t keeps_for = 0;      // the picture that the present call keeps blocks for; 0: none
  uint32_t changed_for = 0;    // the last picture since which a block was changed
  uint32_t shelves = 0;        // of all pools
  int requests_under_way = 0;  // that hold no lock; the shard keeps its stream meanwhile
};

// The shards of a device by stream. Finding one needs no lock.
class ShardTable {
 public:
  ShardTable();
  ~ShardTable();
  ShardTable(const ShardTable&) = delete;
  ShardTable& operator=(const ShardTable&) = delete;

  // Null: there is none. The shard may have gone over to another stream by the time it is locked.
  Shard* find(Stream stream) const {
    const Slots& slots = *slots_.load(std::memory_order_acquire);
    for (uint64_t at = hash(stream);; at++) {
      Shard* const shard = slots[at].load(std::memory_order_acquire);
      if (!shard || shard->stream.load(std::memory_order_relaxed) == stream) [[likely]]
        return shard;
    }
  }

  // pre (here and below): the device's lock. The shard is new, or has a new stream. Throws
  // std::bad_alloc, with nothing changed.
  Shard* add(std::unique_ptr<Shard> shard);
  void give(Shard* shard, Stream stream);
  const std::vector<std::unique_ptr<Shard>>& all() const { return all_; }

 private:
  class Slots {
   public:
    explicit Slots(uint64_t size) : mask_(size - 1), slots_(size) {}
    std::atomic<Shard*>& operator[](uint64_t at) const { return slots_[at & mask_]; }
    uint64_t size() const { return mask_ + 1; }

   private:
    uint64_t mask_;
    mutable std::vector<std::atomic<Shard*>> slots_;
  };

  // Handles are small numbers or addresses.
  static uint64_t hash(Stream stream) { return (stream * 0x9E3779B97F4A7C15u) >> 32; }
  void reserve_slot();
  void enter(Slots& slots, Shard* shard);

  std::atomic<Slots*> slots_;
  uint64_t entered_ = 0;                           // slots in use
  std::vector<std::unique_ptr<Slots>> all_slots_;  // earlier ones may still be read
  std::vector<std::unique_ptr<Shard>> all_;
};

}  // namespace cachalot
