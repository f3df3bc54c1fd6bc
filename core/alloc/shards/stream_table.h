// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams that have memory of a device, and what a hit needs of each.
//
// Note [Streams]
// Rationale: programs make a stream for each request, session or worker, and drop it again. A stream
// that has no memory must cost nothing, and finding one needs no lock.
// Approach: an open-addressing table of pointers to entries, at most half full. An entry stays with its
// shard, and its memory stays: once its stream has no memory it serves the next new stream. So a thread
// may lock the shard of an entry that it has found, and then look whether the entry still serves its
// stream. The slot of the earlier stream stays behind. When such slots fill the table, the present
// entries go into the other one of two tables, so neither the tables nor the time for a change grow
// with the number of changes. A reader that is still at the old table finds its stream there, or
// finds nothing and asks again under the device's lock.
// Invariants: an entry that is `vacant` has no lists; each stream with lists is in the table.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "alloc/heap/stream_entry.h"
#include "base/stable_pool.h"
#include "device/device.h"

namespace cachalot {

class StreamTable {
 public:
  StreamTable();
  ~StreamTable();
  StreamTable(const StreamTable&) = delete;
  StreamTable& operator=(const StreamTable&) = delete;

  // Null: there is none. The entry may have gone over to another stream by the time its shard is
  // locked.
  StreamEntry* find(Stream stream) const {
    const Slots& slots = *slots_.load(std::memory_order_acquire);
    for (uint64_t at = hash(stream);; at++) {
      StreamEntry* const entry = slots[at].load(std::memory_order_acquire);
      if (!entry || entry->stream.load(std::memory_order_relaxed) == stream) [[likely]]
        return entry;
    }
  }

  // pre (here and below): the device's lock.
  // An entry whose stream has no memory; null: there is none. Throws std::bad_alloc.
  StreamEntry* find_vacant();
  // The entry that was found now serves this stream. pre: the lock of its shard.
  void give(StreamEntry* vacant, Stream stream);
  // For a stream that has no entry yet. Throws std::bad_alloc, with nothing changed.
  StreamEntry* add(Shard* shard, Stream stream);
  // The entry may have become vacant.
  void note_vacancy(StreamEntry* entry) noexcept;

  // Bytes of all tables.
  uint64_t bytes() const;

 private:
  class Slots {
   public:
    explicit Slots(uint64_t size) : mask_(size - 1), slots_(size) {}
    std::atomic<StreamEntry*>& operator[](uint64_t at) const { return slots_[at & mask_]; }
    uint64_t size() const { return mask_ + 1; }
    void clear() {
      for (auto& slot : slots_) slot.store(nullptr, std::memory_order_relaxed);
    }

   private:
    uint64_t mask_;
    mutable std::vector<std::atomic<StreamEntry*>> slots_;
  };

  // Handles are small numbers or addresses.
  static uint64_t hash(Stream stream) { return (stream * 0x9E3779B97F4A7C15u) >> 32; }
  void reserve_slot();
  void enter(Slots& slots, StreamEntry* entry);
  bool knows_all_entries() const;

  std::atomic<Slots*> slots_;
  uint64_t entered_ = 0;  // slots in use
  std::unique_ptr<Slots> present_;
  std::unique_ptr<Slots> other_;                 // what was present before
  std::vector<std::unique_ptr<Slots>> smaller_;  // earlier ones; they may still be read
  StablePool<StreamEntry> pool_;  // apart from the heap, whose pages would stay for them
  std::vector<StreamEntry*> entries_;
  std::vector<StreamEntry*>
      vacant_;  // has room for all; some may have been taken by their own stream
};

}  // namespace cachalot
