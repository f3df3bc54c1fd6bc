// SPDX-License-Identifier: MIT OR Apache-2.0
// The reading of statistics at one moment.
//
// Note [Reading statistics]
// Rationale: statistics show one moment. Holding all shards while their accounts are added up would hold
// up the hits of all.
// Approach: the moment is the one in which kReading is set. A call that sees the flag comes later, and
// first preserves what its shard's account was then. The first such call that takes the order lock
// preserves the shared account: each call looks at the flag once more under that lock, while it has
// changed nothing yet. The reader visits all shards, and preserves for those that no call used meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "alloc/stats/counters.h"
#include "alloc/sync/slow_path_flags.h"
#include "base/assert.h"

namespace cachalot {

// The rows of an account as they were when the last reading began. The account's lock guards them.
class PreservedRows {
 public:
  // Makes room for the rows. Throws std::bad_alloc.
  void prepare() {
    if (!rows_) rows_ = std::make_unique<Counters::Rows>();
  }
  // The first call of a reading counts. pre: prepare().
  void preserve(const Counters::Rows& rows, uint64_t reading) {
    CACHALOT_ASSERT(1, rows_ && reading >= reading_);
    if (reading_ == reading) return;
    reading_ = reading;
    *rows_ = rows;
  }
  const Counters::Rows& rows() const {
    CACHALOT_ASSERT(1, reading_ != 0);
    return *rows_;
  }

 private:
  uint64_t reading_ = 0;  // the reading that the rows are for
  std::unique_ptr<Counters::Rows> rows_;
};

// Owns the number of the reading and what the shared account was at its moment.
// One reading at a time.
class StatsReading : private SlowPath {
 public:
  explicit StatsReading(SlowPathFlags& flags) : flags_(flags) {}

  // Throws std::bad_alloc, and then no reading has begun. pre: all accounts are prepared.
  void begin() {
    CACHALOT_ASSERT(1, !is_under_way());
    shared_.prepare();
    number_++;
    flags_.add(kReading);
  }
  void end() {
    CACHALOT_ASSERT(1, is_under_way());
    flags_.drop(kReading);
  }
  bool is_under_way() const { return flags_.has(kReading); }
  // Of the last reading that has begun.
  uint64_t number() const { return number_.load(); }

  // pre: the order lock; a reading is under way.
  void preserve_shared(const Counters::Rows& rows) { shared_.preserve(rows, number()); }
  const Counters::Rows& shared() const { return shared_.rows(); }

 private:
  SlowPathFlags& flags_;
  std::atomic<uint64_t> number_{0};
  PreservedRows shared_;  // of the shared account
};

}  // namespace cachalot
