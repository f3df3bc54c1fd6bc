// SPDX-License-Identifier: MIT OR Apache-2.0
// Keys in the order in which the reference's hash tables list them.
//
// Note [Hash order]
// Rationale: the reference walks a hash table when it gives several pools back, when it looks for a
// fallback pool, and when it looks at the events of several streams. So its driver calls and addresses
// follow the order of that table.
// Approach: the same kind of table, found by experiment with its binary: Fibonacci hashing over a
// power of two, open addressing with Robin Hood displacement, at most half full, never shrinking.
// Invariants: a slot's distance is how far its key lies from its home; of keys with one home and
// distance the one that came first lies first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace cachalot {

template <class Key>
// Owns the slots. Keys come out in the order of their slots, which depends on the history of
// insertions and erasures as the reference's does.
class HashOrder {
 public:
  // hash: the same for a key each time. Throws std::bad_alloc; nothing has changed then.
  void insert(Key key, uint64_t hash) {
    if (find(key, hash)) return;
    CACHALOT_ASSERT(2, !has_with_another_hash(key));
    HashOrder changed(*this);
    changed.place(key, hash);
    *this = std::move(changed);
    CACHALOT_ASSERT(2, is_sound());
  }

  void erase(Key key, uint64_t hash) {
    if (const Slot* found = find(key, hash)) erase_at(static_cast<size_t>(found - slots_.data()));
  }

  // Shows every key to `keep`, and erases those for which it says false.
  template <class Keep>
  void retain(Keep keep) {
    for (size_t at = 0; at < slots_.size();) {
      if (slots_[at].distance < 0 || keep(slots_[at].key)) {
        at++;
      } else {
        erase_at(at);
      }
    }
  }

  // In the order of the slots.
  std::vector<Key> keys() const {
    std::vector<Key> keys;
    for (const Slot& slot : slots_) {
      if (slot.distance >= 0) keys.push_back(slot.key);
    }
    return keys;
  }

 private:
  static constexpr uint64_t kMultiplier = 11400714819323198485u;  // 2^64 by the golden ratio
  static constexpr unsigned kLeastBits = 2;
  static constexpr int kLeastDistance = 4;

  struct Slot {
    int distance = -1;  // -1: empty
    uint64_t hash = 0;
    Key key{};
  };

  // The high bits of the product, which depend on all bits of the hash.
  size_t home(uint64_t hash) const {
    return static_cast<size_t>(hash * kMultiplier >> (64 - bits_));
  }

  // Ends at the first slot whose key is nearer to its home than the sought one would be: that key
  // would have been displaced.
  const Slot* find(Key key, uint64_t hash) const {
    if (bits_ == 0) return nullptr;
    const Slot* slot = &slots_[home(hash)];
    for (int distance = 0; slot->distance >= distance; slot++, distance++) {
      if (slot->key == key) return slot;
    }
    return nullptr;
  }

  // Moves the keys behind that are not at home one slot up.
  void erase_at(size_t at) {
    for (; slots_[at + 1].distance > 0; at++) {
      slots_[at] = slots_[at + 1];
      slots_[at].distance--;
    }
    slots_[at] = {};
    CACHALOT_ASSERT(1, count_ > 0);
    count_--;
    CACHALOT_ASSERT(2, is_sound());
  }

  bool has_with_another_hash(Key key) const {
    return std::any_of(slots_.begin(), slots_.end(),
                       [&](const Slot& slot) { return slot.distance >= 0 && slot.key == key; });
  }
  // The invariants, as far as one look at each slot tells them.
  bool is_sound() const {
    size_t count = 0;
    for (size_t at = 0; at < slots_.size(); at++) {
      const Slot& slot = slots_[at];
      if (slot.distance < 0) continue;
      count++;
      if (slot.distance >= longest_ || at != home(slot.hash) + static_cast<size_t>(slot.distance))
        return false;
      if (slot.distance > 0 && slots_[at - 1].distance < slot.distance - 1) return false;
    }
    return count == count_ && (bits_ == 0 || count * 2 <= size_t{1} << bits_);
  }

  // The key that is farther from home gets the slot; the other one moves on.
  void place(Key key, uint64_t hash) {
    if (bits_ == 0 || (count_ + 1) * 2 > size_t{1} << bits_) grow();
    Slot moving{0, hash, key};
    Slot* first_taken = nullptr;
    for (Slot* slot = &slots_[home(hash)]; moving.distance < longest_; slot++, moving.distance++) {
      if (slot->distance < 0) {
        *slot = moving;
        count_++;
        return;
      }
      if (slot->distance >= moving.distance) continue;
      std::swap(*slot, moving);
      if (!first_taken) first_taken = slot;
    }
    // Too far: the table grows first. The new key waits for that, not the one that it displaced.
    if (first_taken) {
      std::swap(first_taken->hash, moving.hash);
      std::swap(first_taken->key, moving.key);
    }
    grow();
    place(moving.key, moving.hash);
  }

  void grow() {
    HashOrder larger;
    larger.bits_ = std::max(kLeastBits, bits_ + 1);
    larger.longest_ = std::max(kLeastDistance, static_cast<int>(larger.bits_));
    larger.slots_.resize((size_t{1} << larger.bits_) + static_cast<size_t>(larger.longest_) + 1);
    for (const Slot& slot : slots_) {
      if (slot.distance >= 0) larger.place(slot.key, slot.hash);
    }
    *this = std::move(larger);
  }

  std::vector<Slot> slots_;  // 2^bits_, and some that take what overflows at the end
  unsigned bits_ = 0;        // 0: no slots yet
  int longest_ = 0;          // distance
  size_t count_ = 0;
};

}  // namespace cachalot
