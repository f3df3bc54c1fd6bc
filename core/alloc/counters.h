// SPDX-License-Identifier: MIT OR Apache-2.0
// How the statistics of a device are kept: cheap on a hit, exact to read.
//
// Note [Headroom]
// Rationale: a hit moves five statistics, each for its kind of pool and for all, each with a
// current value, a peak and two sums. Approach: for each row (small, large, all) only `head = peak
// - current` and, by kind, `freed` are kept up; one sign test over all heads tells whether a peak
// has to be raised. current = peak - head; allocated = current - base + freed, where base was
// current at the last reset; the sums of `all` are those of the kinds. Invariants: head >= 0
// outside of a call; all.current = small.current + large.current.
#pragma once

#include <cstdint>

#include "alloc/stats.h"

namespace cachalot {

class Counters {
 public:
  // What moves together. inactive_split and its bytes may go either way.
  struct HandOut {
    int64_t bytes;
    int64_t requested;
    int64_t split_count;
    int64_t split_bytes;
  };

  // A block is handed out, and is active from now on.
  void hand_out(bool is_small, const HandOut& change);
  // The caller freed a block; it stays active.
  void give_back(bool is_small, int64_t bytes);
  // A freed block is active no longer.
  void complete(bool is_small, const HandOut& change);
  // Both at once, the usual way.
  void give_back_and_complete(bool is_small, const HandOut& change);

  // So many rounds of a free and a hand-out of the same: only the sums move.
  void add_rounds(bool is_small, const HandOut& change, int64_t rounds);

  // From now on blocks may be active without being allocated.
  void keep_active_apart();

  void read(Stats* stats) const;
  void reset_peak();
  void reset_accumulated();

  int64_t allocated_bytes() const { return all().current(kBytes); }
  int64_t max_allocated_bytes() const { return all().peak[kBytes]; }
  int64_t active_bytes() const { return all().current(apart_ ? kActiveBytes : kBytes); }
  int64_t max_active_bytes() const { return all().peak[apart_ ? kActiveBytes : kBytes]; }

 private:
  enum Counter {
    kCount,
    kBytes,
    kRequested,
    kSplit,
    kSplitBytes,
    kActive,
    kActiveBytes,
    kCounters
  };
  enum { kSmall, kLarge, kAll, kRows };

  struct Row {
    int64_t head[kCounters] = {};
    int64_t peak[kCounters] = {};
    int64_t freed[kCounters] = {};
    int64_t base[kCounters] = {};

    int64_t current(int counter) const { return peak[counter] - head[counter]; }
  };

  const Row& all() const { return rows_[kAll]; }
  // Moves a counter of a kind and of all by n; returns a number that is negative if a peak was
  // passed.
  int64_t move(Row& kind, Counter counter, int64_t n) {
    kind.head[counter] -= n;
    rows_[kAll].head[counter] -= n;
    return kind.head[counter] | rows_[kAll].head[counter];
  }
  int64_t move_split(Row& kind, const HandOut& change) {
    kind.freed[kSplit] -= change.split_count & (change.split_count >> 63);
    kind.freed[kSplitBytes] -= change.split_bytes & (change.split_bytes >> 63);
    return move(kind, kSplit, change.split_count) | move(kind, kSplitBytes, change.split_bytes);
  }
  void lower(Row& kind, Counter counter, int64_t n) {
    kind.head[counter] += n;
    rows_[kAll].head[counter] += n;
    kind.freed[counter] += n;
  }
  void raise_peaks(Row& kind);
  Stat stat(int row, int counter) const;
  StatArray array(int counter) const;

  Row rows_[kRows];
  bool apart_ = false;  // active has counters of its own
};

inline void Counters::hand_out(bool is_small, const HandOut& change) {
  Row& kind = rows_[is_small ? kSmall : kLarge];
  int64_t sign = move(kind, kCount, 1) | move(kind, kBytes, change.bytes) |
                 move(kind, kRequested, change.requested) | move_split(kind, change);
  if (apart_) sign |= move(kind, kActive, 1) | move(kind, kActiveBytes, change.bytes);
  if (sign < 0) [[unlikely]]
    raise_peaks(kind);
}

inline void Counters::give_back_and_complete(bool is_small, const HandOut& change) {
  give_back(is_small, change.bytes);
  complete(is_small, change);
}

inline void Counters::give_back(bool is_small, int64_t bytes) {
  Row& kind = rows_[is_small ? kSmall : kLarge];
  lower(kind, kCount, 1);
  lower(kind, kBytes, bytes);
}

inline void Counters::complete(bool is_small, const HandOut& change) {
  Row& kind = rows_[is_small ? kSmall : kLarge];
  lower(kind, kRequested, change.requested);
  if (apart_) {
    lower(kind, kActive, 1);
    lower(kind, kActiveBytes, change.bytes);
  }
  if (move_split(kind, change) < 0) [[unlikely]]
    raise_peaks(kind);
}

}  // namespace cachalot
