// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/shards/stream_table.h"

#include <algorithm>
#include <new>
#include <utility>

#include "alloc/shards/shard.h"
#include "base/assert.h"

namespace cachalot {

// The table doubles from here on; most programs stay within the first one.
StreamTable::StreamTable() {
  constexpr uint64_t kFirstSize = 64;
  present_ = std::make_unique<Slots>(kFirstSize);
  slots_.store(present_.get());
}

StreamTable::~StreamTable() = default;

StreamEntry* StreamTable::find_vacant() {
  if (!vacant_.empty()) reserve_slot();  // so that the entry that is found can be given
  while (!vacant_.empty()) {
    StreamEntry* const entry = vacant_.back();
    vacant_.pop_back();
    entry->is_listed = false;
    if (!entry->is_vacant()) continue;  // it was listed, and has got a list since
    CACHALOT_ASSERT(1, !entry->default_lists[false] && !entry->default_lists[true]);
    return entry;
  }
  return nullptr;
}

// Has no right to fail, since it is part of giving memory back: add() made the room.
void StreamTable::note_vacancy(StreamEntry* entry) noexcept {
  if (!entry->is_vacant() || std::exchange(entry->is_listed, true)) return;
  CACHALOT_ASSERT(1, vacant_.size() < vacant_.capacity());
  vacant_.push_back(entry);
}

// All room is made before the entry, which is never given back.
StreamEntry* StreamTable::add(Shard* shard, Stream stream) {
  CACHALOT_ASSERT(1, !find(stream));
  reserve_slot();
  if (entries_.capacity() == entries_.size()) {
    vacant_.reserve(2 * entries_.size() + 1);
    entries_.reserve(2 * entries_.size() + 1);
  }
  auto* const entry = new (pool_.take()) StreamEntry(shard, stream);
  entries_.push_back(entry);
  enter(*present_, entry);
  return entry;
}

// Under the shard's lock, since a hit compares the entry's stream under it.
void StreamTable::give(StreamEntry* vacant, Stream stream) {
  vacant->shard->lock.assert_held();
  CACHALOT_ASSERT(1, vacant->is_vacant() && !vacant->is_listed && !find(stream));
  vacant->stream.store(stream);
  enter(*present_, vacant);
}

// A new table has at most a quarter of its slots in use, so that the next one is not needed soon.
void StreamTable::reserve_slot() {
  if (2 * (entered_ + 1) <= present_->size()) return;
  uint64_t size = present_->size();
  if (4 * (entries_.size() + 1) > size) size *= 2;
  if (other_ && other_->size() == size) {
    other_->clear();
  } else {
    // A reader may still be at a smaller table, so none is given back before the end.
    smaller_.reserve(smaller_.size() + 1);
    auto made = std::make_unique<Slots>(size);
    if (other_) smaller_.push_back(std::move(other_));
    other_ = std::move(made);
  }
  entered_ = 0;
  for (StreamEntry* entry : entries_) enter(*other_, entry);
  // Only a complete table is published: a reader takes what it does not find for absent.
  slots_.store(other_.get(), std::memory_order_release);
  std::swap(present_, other_);
  CACHALOT_ASSERT(2, knows_all_entries());
}

// For assertions.
bool StreamTable::knows_all_entries() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [&](const StreamEntry* entry) { return find(entry->stream) == entry; });
}

// Linear probing. Release order: a reader that finds the pointer sees the complete entry.
void StreamTable::enter(Slots& slots, StreamEntry* entry) {
  CACHALOT_ASSERT(1, 2 * (entered_ + 1) <= slots.size());  // so that searches end
  uint64_t at = hash(entry->stream);
  while (slots[at].load(std::memory_order_relaxed)) at++;
  slots[at].store(entry, std::memory_order_release);
  entered_++;
}

// With the slots of tables that are only kept for late readers.
uint64_t StreamTable::bytes() const {
  uint64_t slots = present_->size() + (other_ ? other_->size() : 0);
  for (const auto& table : smaller_) slots += table->size();
  return slots * sizeof(StreamEntry*) + pool_.bytes();
}

}  // namespace cachalot
