// SPDX-License-Identifier: MIT OR Apache-2.0
// How the statistics of a device are kept: cheap on a hit, exact to read.
//
// Note [Headroom]
// Rationale: a hit moves seven statistics, each for its kind of pool and for all, each with a
// current value, a peak and two sums.
// Approach: for each row (small, large, all) `head = peak - current` is kept up, and by kind
// `freed`; one sign test over all heads tells whether a peak has to be raised. current = peak -
// head; allocated = current - base + freed, where base was current at the last reset; the sums of
// `all` are those of the kinds, so its own `freed` stays 0.
// Invariants: head >= 0 outside of a call; all.current = small.current + large.current.
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

  void read(Stats* stats) const;
  void reset_peak();
  void reset_accumulated();

  int64_t allocated_bytes() const { return all().current(kBytes); }
  int64_t max_allocated_bytes() const { return all().peak[kBytes]; }
  int64_t active_bytes() const { return all().current(kActiveBytes); }
  int64_t max_active_bytes() const { return all().peak[kActiveBytes]; }

 private:
  // In pairs, because two move with one instruction.
  enum Counter {
    kCount,
    kBytes,
    kSplit,
    kSplitBytes,
    kActive,
    kActiveBytes,
    kRequested,
    kCounters = 8
  };
  enum { kSmall, kLarge, kAll, kRows };
  using Pair [[gnu::vector_size(16), gnu::may_alias]] = int64_t;

  struct alignas(64) Row {
    int64_t head[kCounters] = {};
    int64_t freed[kCounters] = {};
    int64_t peak[kCounters] = {};
    int64_t base[kCounters] = {};

    int64_t current(int counter) const { return peak[counter] - head[counter]; }
  };

  // pre: first is even.
  static Pair& pair(int64_t (&values)[kCounters], Counter first) {
    return *reinterpret_cast<Pair*>(&values[first]);
  }
  const Row& all() const { return rows_[kAll]; }
  Row& row(bool is_small) { return rows_[is_small ? kSmall : kLarge]; }
  // Moves a pair of a kind and of all up; the signs of what is returned tell whether a peak was
  // passed.
  Pair move(Row& kind, Counter first, Pair by) {
    Pair& head = pair(kind.head, first);
    Pair& all_head = pair(rows_[kAll].head, first);
    head -= by;
    all_head -= by;
    return head | all_head;
  }
  // Goes either way.
  Pair move_split(Row& kind, const HandOut& change) {
    const Pair by{change.split_count, change.split_bytes};
    pair(kind.freed, kSplit) -= by & (by < 0);
    return move(kind, kSplit, by);
  }
  void lower(Row& kind, Counter first, Pair by) {
    pair(kind.head, first) += by;
    pair(rows_[kAll].head, first) += by;
    pair(kind.freed, first) += by;
  }
  void raise_peaks_if_passed(Row& kind, Pair signs) {
    if ((signs[0] | signs[1]) < 0) [[unlikely]]
      raise_peaks(kind);
  }
  void raise_peaks(Row& kind);
  Stat stat(int row, int counter) const;
  StatArray array(int counter) const;

  Row rows_[kRows];
};

inline void Counters::hand_out(bool is_small, const HandOut& change) {
  Row& kind = row(is_small);
  const Pair block{1, change.bytes};
  const Pair signs = move(kind, kCount, block) | move(kind, kActive, block) |
                     move(kind, kRequested, Pair{change.requested, 0}) | move_split(kind, change);
  raise_peaks_if_passed(kind, signs);
}

inline void Counters::give_back_and_complete(bool is_small, const HandOut& change) {
  give_back(is_small, change.bytes);
  complete(is_small, change);
}

inline void Counters::give_back(bool is_small, int64_t bytes) {
  lower(row(is_small), kCount, Pair{1, bytes});
}

inline void Counters::complete(bool is_small, const HandOut& change) {
  Row& kind = row(is_small);
  lower(kind, kActive, Pair{1, change.bytes});
  lower(kind, kRequested, Pair{change.requested, 0});
  raise_peaks_if_passed(kind, move_split(kind, change));
}

}  // namespace cachalot
