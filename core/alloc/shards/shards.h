// SPDX-License-Identifier: MIT OR Apache-2.0
// The shards of a device, and what lies above them: the device's lock, the streams that lead to the
// shards, and the headroom of their counters. See Note [Shards] in shard.h.
//
// The classes of device_lock.h lock a device, or a part of it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "alloc/heap/segment_heap.h"
#include "alloc/shards/hit_rules.h"
#include "alloc/shards/shard.h"
#include "alloc/shards/stream_table.h"
#include "alloc/stats/peaks.h"
#include "alloc/sync/slow_path_flags.h"
#include "base/lock.h"

namespace cachalot {

// pre, unless a function says otherwise: the device's lock.
class Shards : private SlowPath {
 public:
  // What became of a step whose counters may have to recall headroom first.
  enum class Step { kDone, kRefused, kNeedsDevice };

  // device: found in each shard.
  Shards(DeviceAllocator* device, SegmentHeap& heap, const HitRules& rules, SlowPathFlags& flags)
      : flags_(flags), device_(device), heap_(heap), rules_(rules) {}

  Lock& lock() { return lock_; }
  // Then the device's lock is enough for all of the device.
  bool is_used_as_whole() const { return has(kWholeDevice); }

  // ---- Streams
  // Null: the stream has no memory. Without a lock: see StreamTable.
  StreamEntry* find(Stream stream) const { return streams_.find(stream); }
  // The entry of a stream; made where there is none. pre: no shard's lock. Throws std::bad_alloc.
  StreamEntry& entry_for(Stream stream);
  void note_vacancy(StreamEntry* entry) noexcept { streams_.note_vacancy(entry); }

  // ---- Steps at a shard (device_lock.h). pre of with_headroom and look_at: no lock of the device.
  template <class TakeStep>
  bool with_headroom(Shard& shard, TakeStep step);
  template <class TakeStep>
  void with_headroom_of_locked(Shard& shard, TakeStep step);
  template <class Look>
  auto look_at(Shard& shard, Look look);
  std::unique_lock<Lock> lock_at(Shard& shard);
  // What a hit of a device that is used as a whole may have kept.
  void flush_only_shard();

  // ---- Counting
  // False: the counters refuse, and nothing has changed; after a recall of headroom the call tries
  // again. Never false for the whole device.
  // pre: the shard, at which this call has changed nothing yet but through begin_at().
  bool count(Shard& shard, bool is_small, const Counters::Move& move);
  // A freed block is about to wait. pre: the whole device.
  void begin_waiting() {
    if (!peaks_.has_waiting()) peaks_.begin_waiting(sums());
  }
  // For hits.
  Peaks& peaks() { return peaks_; }

  // ---- Statistics
  // See Note [Reading statistics].
  void read(Stats* stats);
  // pre (here and below): the whole device.
  Peaks::Sums sums() const;
  void reset_peaks();
  void reset_accumulated();
  // The auditor: the present values, and what is wrong with the limits of the counters.
  void write(Stats* stats) const { peaks_.write(sums(), stats); }
  std::string check_limits() const;

  // ---- Copying blocks: see Note [Copying blocks]
  // From now on each shard preserves blocks before they change. Returns the number of the copy.
  uint32_t begin_copying();
  void end_copying();

 private:
  friend class DeviceLock;
  friend class DeviceUnlock;
  friend class LongHold;

  bool has(uint32_t flags) const { return flags_.has(flags); }
  void stop();
  void go_on();
  void begin_at(Shard& shard);
  void visit_shards(bool for_a_move);
  void recall_headroom(uint64_t last);
  Shard* add_shard();
  Shard* next_shard();

  SlowPathFlags& flags_;
  StreamTable streams_;
  DeviceAllocator* const device_;
  SegmentHeap& heap_;
  const HitRules& rules_;
  alignas(64) Lock lock_{LockRank::kDevice};
  Lock recalling_{LockRank::kRecall};  // also for changes of the list of shards
  std::vector<std::unique_ptr<Shard>> shards_;
  uint32_t next_shard_ = 0;  // when all are there
  uint32_t copy_number_ = 0;
  Peaks peaks_{flags_};
};

}  // namespace cachalot
