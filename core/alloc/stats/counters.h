// SPDX-License-Identifier: MIT OR Apache-2.0
// The statistics of one shard: cheap to move on a hit, exact together with those of the others.
//
// Note [Headroom]
// Rationale: a hit moves five statistics, each for its kind of pool and for all, each with a current
// value, a peak and two sums.
// Approach: for each row (small, large, all) a shard has a limit, below which it moves without a look at
// other shards. A move changes `head = limit - current`, and of a kind `freed`. peaks.h says where
// limits come from, and how the peak and the sums of the device follow from them. The row `all` has a
// limit of its own, so it has a head too; its `freed` stays 0, since the kinds have it.
//   A plain segment of which a block is in use is occupied: its bytes are either active or those of
// split free blocks. So split bytes follow from bytes as long as no segment becomes occupied or empty,
// and a hit need not move them. In the place of their head a row keeps `span`, the head of the bytes
// that leaves no headroom for split bytes: split bytes are within their limit where head <= span.
//   Active blocks are the allocated blocks and those whose free waits; the latter are counted apart
// (active_counts.h), because none waits while hits are possible.
// Invariants: no headroom is below 0 outside of a call; all.current = small.current + large.current.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/sums.h"

namespace cachalot {

class Counters {
 public:
  enum Counter { kCount, kSplit, kBytes, kSplitBytes, kRequested, kOversize, kCounters };
  enum RowName { kSmall, kLarge, kAll, kRowCount };
  using Values = std::array<int64_t, kCounters>;
  using Amounts = std::array<Values, kRowCount>;

  struct alignas(64) Row {
    Values head = {};  // of kSplitBytes: the span
    Values freed = {};
    Values limit = {};

    int64_t headroom(size_t counter) const {
      return counter == kSplitBytes ? head[kSplitBytes] - head[kBytes] : head[counter];
    }
    int64_t current(size_t counter) const { return limit[counter] - headroom(counter); }
    void add_headroom(size_t counter, int64_t by) {
      head[counter] += by;
      if (counter == kBytes) head[kSplitBytes] += by;
    }
    // Moves the limit, and with it what is left below it.
    void raise_limit(size_t counter, int64_t by) {
      limit[counter] += by;
      add_headroom(counter, by);
    }
  };
  using Rows = std::array<Row, kRowCount>;

  // What a hand-out or a free changes. Of a free the bytes go down.
  struct Change {
    int64_t bytes;
    int64_t requested;
    int64_t split;     // the number of split free blocks goes up by it
    int64_t occupied;  // bytes of a segment that becomes occupied or empty, of the block if it is
                       // expandable; 0: none
    int64_t oversize = 0;

    int64_t split_bytes() const {
      return occupied - bytes;
    }  // of a hand-out; a free has the opposite
  };
  struct Move {
    Values by;
    // Blocks that are freed and stay active, and their bytes.
    int64_t waiting = 0;
    int64_t waiting_bytes = 0;
  };
  static Move handing_out(const Change& change);
  static Move requesting_free(const Change& change);  // the caller freed a block; it stays active
  static Move completing_free(const Change& change);  // such a block is active no longer
  static Move freeing(const Change& change);          // both at once

  // The quick forms, without `oversize`. kind: a row of these counters. False: a limit would be passed;
  // nothing has changed.
  //   piece       of a plain segment of which something else stays or is in use
  //   whole       a plain segment, of `size` bytes, that becomes occupied or empty
  //   expandable  a block of an expandable segment
  //   leaves_rest: a part of the free block stays free. merged: the number of free neighbours.
  bool hand_out_piece(Row& kind, int64_t bytes, int64_t requested, bool leaves_rest);
  bool hand_out_whole(Row& kind, int64_t bytes, int64_t requested, int64_t size);
  bool hand_out_expandable(Row& kind, int64_t bytes, int64_t requested);
  bool free_piece(Row& kind, int64_t bytes, int64_t requested, int64_t merged);
  void free_whole(Row& kind, int64_t bytes, int64_t requested, int64_t merged, int64_t size);
  void free_expandable(Row& kind, int64_t bytes, int64_t requested);
  // The general form.
  bool move(Row& kind, const Move& move) { return this->move(kind, move, alone_); }
  bool move(bool is_small, const Move& move) { return this->move(rows_[kind_of(is_small)], move); }
  // may_raise: raises limits that the move would pass.
  bool move(Row& kind, const Move& move, bool may_raise);

  // So many rounds of a free and a hand-out of the same: only the sums move.
  void add_rounds(bool is_small, const Change& change, int64_t rounds);

  // Whether no other account has headroom: then the limits are the peaks, and a move may raise them.
  void set_alone(bool alone) { alone_ = alone; }
  bool is_alone() const { return alone_; }

  const Rows& rows() const { return rows_; }
  Row& row(size_t name) { return rows_[name]; }
  void reset_accumulated();
  // Adds the headroom of these counters to `to` and leaves none here; or takes it in and leaves 0 in
  // `from`.
  void move_headroom_to(Amounts* to);
  void move_headroom_from(Amounts* from);
  bool has_headroom() const;
  // Takes over what the other has counted, which is empty then. pre: it has no headroom.
  void take_over(Counters& other);
  int64_t frees() const;  // since the sums were reset
  bool is_sound() const;  // no limit is passed
  static RowName kind_of(bool is_small) { return is_small ? kSmall : kLarge; }

 private:
  // Moves up what each hand-out moves. False: a limit would be passed; nothing has changed.
  bool take(Row& kind, int64_t bytes, int64_t requested);
  static bool take_from(Row& row, int64_t bytes, int64_t requested);
  bool raise_or_give_back(Row& kind, int64_t bytes, int64_t requested);
  void give(Row& kind, int64_t bytes, int64_t requested);
  bool raise_split(Row& kind, int64_t bytes, int64_t split);
  static void add_to_freed(Row& kind, Counter counter, int64_t by) {
    kind.freed[counter] = wrapping_add(kind.freed[counter], by);
  }
  void raise_limits(Row& kind);

  Rows rows_;
  bool alone_ = false;
};

// Ends at the first head that falls below 0, so that raise_or_give_back() knows how far it came.
[[gnu::always_inline]] inline bool Counters::take_from(Row& row, int64_t bytes, int64_t requested) {
  const auto lower = [](int64_t& head, int64_t by) {
    head -= by;
    return head >= 0;
  };
  return lower(row.head[kCount], 1) && lower(row.head[kBytes], bytes) &&
         lower(row.head[kRequested], requested);
}

[[gnu::always_inline]] inline bool Counters::take(Row& kind, int64_t bytes, int64_t requested) {
  if (take_from(kind, bytes, requested) && take_from(rows_[kAll], bytes, requested)) [[likely]]
    return true;
  return raise_or_give_back(kind, bytes, requested);
}

[[gnu::always_inline]] inline void Counters::give(Row& kind, int64_t bytes, int64_t requested) {
  for (Row* row : {&kind, &rows_[kAll]}) {
    row->head[kCount]++;
    row->head[kBytes] += bytes;
    row->head[kRequested] += requested;
  }
  add_to_freed(kind, kCount, 1);
  add_to_freed(kind, kBytes, bytes);
  add_to_freed(kind, kRequested, requested);
}

// Bytes that are handed out were those of split free blocks, so the span stays.
[[gnu::always_inline]] inline bool Counters::hand_out_piece(Row& kind, int64_t bytes,
                                                            int64_t requested, bool leaves_rest) {
  if (!take(kind, bytes, requested)) [[unlikely]]
    return false;
  const int64_t whole = leaves_rest ? 0 : 1;
  kind.head[kSplit] += whole;
  rows_[kAll].head[kSplit] += whole;
  add_to_freed(kind, kSplit, whole);
  add_to_freed(kind, kSplitBytes, bytes);
  return true;
}

[[gnu::always_inline]] inline bool Counters::free_piece(Row& kind, int64_t bytes, int64_t requested,
                                                        int64_t merged) {
  Row& all = rows_[kAll];
  const int64_t split = 1 - merged;
  const bool is_within = kind.head[kBytes] + bytes <= kind.head[kSplitBytes] &&
                         all.head[kBytes] + bytes <= all.head[kSplitBytes];
  const bool has_room = split <= 0 || (kind.head[kSplit] > 0 && all.head[kSplit] > 0);
  if (!is_within || !has_room) [[unlikely]] {
    if (!raise_split(kind, bytes, split)) return false;
  }
  if (split != 0) {
    kind.head[kSplit] -= split;
    all.head[kSplit] -= split;
    if (split < 0) add_to_freed(kind, kSplit, -split);
  }
  give(kind, bytes, requested);
  return true;
}

[[gnu::always_inline]] inline bool Counters::hand_out_whole(Row& kind, int64_t bytes,
                                                            int64_t requested, int64_t size) {
  Row& all = rows_[kAll];
  const int64_t rest = size - bytes;
  const int64_t split = rest != 0 ? 1 : 0;
  const auto has_room = [&](const Row& row) {
    return row.head[kSplit] >= split && row.headroom(kSplitBytes) >= rest;
  };
  if (!has_room(kind) || !has_room(all)) [[unlikely]]
    return move(kind, handing_out({bytes, requested, split, size}));
  if (!take(kind, bytes, requested)) [[unlikely]]
    return false;
  for (Row* row : {&kind, &all}) {
    row->head[kSplit] -= split;
    row->head[kSplitBytes] -= size;
  }
  return true;
}

[[gnu::always_inline]] inline void Counters::free_whole(Row& kind, int64_t bytes, int64_t requested,
                                                        int64_t merged, int64_t size) {
  give(kind, bytes, requested);
  for (Row* row : {&kind, &rows_[kAll]}) {
    row->head[kSplit] += merged;
    row->head[kSplitBytes] += size;
  }
  add_to_freed(kind, kSplit, merged);
  add_to_freed(kind, kSplitBytes, size - bytes);
}

// Expandable segments have no split bytes, so the span moves with the head of the bytes.
[[gnu::always_inline]] inline bool Counters::hand_out_expandable(Row& kind, int64_t bytes,
                                                                 int64_t requested) {
  if (!take(kind, bytes, requested)) [[unlikely]]
    return false;
  kind.head[kSplitBytes] -= bytes;
  rows_[kAll].head[kSplitBytes] -= bytes;
  return true;
}

[[gnu::always_inline]] inline void Counters::free_expandable(Row& kind, int64_t bytes,
                                                             int64_t requested) {
  give(kind, bytes, requested);
  kind.head[kSplitBytes] += bytes;
  rows_[kAll].head[kSplitBytes] += bytes;
}

inline Counters::Move Counters::handing_out(const Change& change) {
  return {{1, change.split, change.bytes, change.split_bytes(), change.requested, change.oversize}};
}

inline Counters::Move Counters::requesting_free(const Change& change) {
  return {{-1, 0, -change.bytes, 0, 0, -change.oversize}, 1, change.bytes};
}

inline Counters::Move Counters::completing_free(const Change& change) {
  return {{0, change.split, 0, -change.split_bytes(), -change.requested, 0}, -1, -change.bytes};
}

inline Counters::Move Counters::freeing(const Change& change) {
  return {{-1, change.split, -change.bytes, -change.split_bytes(), -change.requested,
           -change.oversize}};
}

}  // namespace cachalot
