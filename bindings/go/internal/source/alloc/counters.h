// SPDX-License-Identifier: MIT OR Apache-2.0
// The statistics of one shard: cheap to move on a hit, exact together with those of the others.
//
// Note [Headroom]
// Rationale: a hit moves seven statistics, each for its kind of pool and for all, each with a
// current value, a peak and two sums.
// Approach: for each row (small, large, all) a shard has a limit up to which it may go without
// asking anybody, and `head = limit - current` is kept up, and by kind `freed`; one sign test over
// all heads tells whether a limit would be passed. peaks.h says where limits come from, and how the
// peak and the sums of the device follow from them. `all` is kept because its limit is one of its
// own; its `freed` stays 0, since the kinds have it.
// Invariants: head >= 0 outside of a call; all.current = small.current + large.current.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cachalot {

class Counters {
 public:
  // In pairs, because two move with one instruction.
  enum Counter {
    kCount,
    kBytes,
    kSplit,
    kSplitBytes,
    kActive,
    kActiveBytes,
    kRequested,
    kOversize,
    kCounters
  };
  enum RowName { kSmall, kLarge, kAll, kRowCount };
  using Values = int64_t[kCounters];

  struct alignas(64) Row {
    Values head = {};
    Values freed = {};
    Values limit = {};

    int64_t current(size_t counter) const { return limit[counter] - head[counter]; }
    // Moves the limit, and with it what is left below it.
    void raise_limit(size_t counter, int64_t by) {
      limit[counter] += by;
      head[counter] += by;
    }
  };
  using Rows = std::array<Row, kRowCount>;

  // What moves together, up or down. Of a free that is carried out at once: all of it.
  struct HandOut {
    int64_t bytes;
    int64_t requested;
    int64_t split_count;  // goes either way
    int64_t split_bytes;
    int64_t oversize = 0;  // 0 on a hit
  };
  struct Move {
    alignas(16) Values by;
  };
  static Move handing_out(const HandOut& change);
  static Move giving_back(const HandOut& change);  // the caller freed a block; it stays active
  static Move completing(const HandOut& change);   // a freed block is active no longer
  static Move giving_back_and_completing(const HandOut& change);

  // The quick forms, without `oversize`. False: a limit would be passed; nothing has changed.
  bool hand_out(bool is_small, const HandOut& change);
  bool give_back_and_complete(bool is_small, const HandOut& change);
  // The general form.
  bool move(bool is_small, const Move& move) { return this->move(is_small, move, alone_); }
  // may_raise: limits that would be passed are raised.
  bool move(bool is_small, const Move& move, bool may_raise);

  // So many rounds of a free and a hand-out of the same: only the sums move.
  void add_rounds(bool is_small, const HandOut& change, int64_t rounds);

  // Whether nobody else has headroom: then the limits are the peaks, and are raised where they are
  // passed.
  void set_alone(bool alone) { alone_ = alone; }
  bool is_alone() const { return alone_; }

  const Rows& rows() const { return rows_; }
  Row& row(size_t name) { return rows_[name]; }
  void reset_accumulated();
  // Takes over what the other has counted, which is empty then. pre: it has no headroom.
  void take_over(Counters& other);
  int64_t frees() const;  // since the sums were reset
  bool is_sound() const;  // no limit is passed
  static RowName kind_of(bool is_small) { return is_small ? kSmall : kLarge; }

 private:
  using Pair [[gnu::vector_size(16), gnu::may_alias]] = int64_t;
  using UnsignedPair [[gnu::vector_size(16), gnu::may_alias]] = uint64_t;  // of sums, which wrap

  // pre: first is even.
  static Pair& pair(Values& values, Counter first) {
    return *reinterpret_cast<Pair*>(&values[first]);
  }
  static UnsignedPair& unsigned_pair(Values& values, Counter first) {
    return *reinterpret_cast<UnsignedPair*>(&values[first]);
  }
  // Moves a pair of a kind and of all up; the signs of what is returned tell whether a limit was
  // passed.
  Pair raise(Row& kind, Counter first, Pair by) {
    Pair& head = pair(kind.head, first);
    Pair& all_head = pair(rows_[kAll].head, first);
    head -= by;
    all_head -= by;
    return head | all_head;
  }
  void lower(Row& kind, Counter first, Pair by) {
    pair(kind.head, first) += by;
    pair(rows_[kAll].head, first) += by;
    unsigned_pair(kind.freed, first) += reinterpret_cast<UnsignedPair>(by);
  }
  static void count_lost_splits(Row& kind, Pair by) {
    unsigned_pair(kind.freed, kSplit) -= reinterpret_cast<UnsignedPair>(by & (by < 0));
  }
  static bool any_negative(Pair signs) { return (signs[0] | signs[1]) < 0; }
  void raise_limits(Row& kind);

  Rows rows_;
  bool alone_ = false;
};

inline bool Counters::hand_out(bool is_small, const HandOut& change) {
  Row& kind = rows_[kind_of(is_small)];
  const Pair block{1, change.bytes};
  const Pair requested{change.requested, 0};
  const Pair split{change.split_count, change.split_bytes};
  const Pair signs = raise(kind, kCount, block) | raise(kind, kActive, block) |
                     raise(kind, kRequested, requested) | raise(kind, kSplit, split);
  if (any_negative(signs)) [[unlikely]] {
    if (!alone_) {
      raise(kind, kCount, -block);
      raise(kind, kActive, -block);
      raise(kind, kRequested, -requested);
      raise(kind, kSplit, -split);
      return false;
    }
    raise_limits(kind);
  }
  count_lost_splits(kind, split);
  return true;
}

inline bool Counters::give_back_and_complete(bool is_small, const HandOut& change) {
  Row& kind = rows_[kind_of(is_small)];
  const Pair split{change.split_count, change.split_bytes};
  if (any_negative(raise(kind, kSplit, split))) [[unlikely]] {
    if (!alone_) {
      raise(kind, kSplit, -split);
      return false;
    }
    raise_limits(kind);
  }
  count_lost_splits(kind, split);
  lower(kind, kCount, Pair{1, change.bytes});
  lower(kind, kActive, Pair{1, change.bytes});
  lower(kind, kRequested, Pair{change.requested, 0});
  return true;
}

inline Counters::Move Counters::handing_out(const HandOut& change) {
  return {{1, change.bytes, change.split_count, change.split_bytes, 1, change.bytes,
           change.requested, change.oversize}};
}

inline Counters::Move Counters::giving_back(const HandOut& change) {
  return {{-1, -change.bytes, 0, 0, 0, 0, 0, -change.oversize}};
}

inline Counters::Move Counters::completing(const HandOut& change) {
  return {{0, 0, change.split_count, change.split_bytes, -1, -change.bytes, -change.requested, 0}};
}

inline Counters::Move Counters::giving_back_and_completing(const HandOut& change) {
  return {{-1, -change.bytes, change.split_count, change.split_bytes, -1, -change.bytes,
           -change.requested, -change.oversize}};
}

}  // namespace cachalot
