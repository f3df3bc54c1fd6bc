// SPDX-License-Identifier: MIT OR Apache-2.0
// The labels that blocks are handed out under, and the rows of a device that count by label.
//
// Note [Labels that are gone]
// Rationale: a label for each request or each model that was ever loaded must not be kept for ever.
// Approach: a label has a slot from its first use on, and blocks remember the slot. When all slots
// are taken, a new label gets the slot of the one that has been idle longest, which has no block on
// any device. Where none is idle the new label counts as kOther. A device that gives a row to
// another label first adds the sums of the earlier label to the row of kOther, so that sums over
// all rows never fall.
// Invariants: a slot that is pinned keeps its label; a live block pins its slot.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/stats/stats.h"
#include "base/assert.h"
#include "base/mutex.h"

namespace cachalot {

using LabelText = std::shared_ptr<const std::string>;

// Owns the slots and the texts of all labels of an allocator. Any thread.
class Labels {
 public:
  using Slot = uint32_t;
  static constexpr Slot kNone = 0;
  static constexpr Slot kOther = 1;
  static constexpr size_t kMost = 1000;  // labels; CACHALOT_MAX_LABELS

  struct Label {
    uint64_t number;  // in the order of first uses; 0: the slot has no label
    LabelText text;
  };

  Labels();

  Slot pin(const LabelText& text);  // kNone for null
  void pin_again(Slot slot);        // pre: it is pinned
  void unpin(Slot slot);            // likewise
  Label label(Slot slot) const;
  std::string text(Slot slot) const;  // "" for kNone
  bool is_pinned(Slot slot) const;    // for assertions only

 private:
  // A slot. It is in `idle_` while nothing pins it, else in `busy_`; the node of the list is its
  // own, so that a change of list needs no memory and cannot fail.
  struct Entry {
    Label label;
    uint64_t pins = 0;
    std::list<Slot>::iterator at;  // in idle_ or busy_
  };

  // pre of all: lock_.
  bool is_sound() const;
  // Gives a new label a slot: an unused one, that of the idle label, or kOther.
  Slot slot_for(const LabelText& text);
  Slot new_slot();
  void name(Slot slot, const LabelText& text);

  mutable Mutex lock_{LockRank::kLabels};
  std::vector<Entry> entries_;                        // by slot
  std::unordered_map<std::string_view, Slot> slots_;  // by texts, which the entries own
  std::list<Slot> idle_;                              // least recently used first
  std::list<Slot> busy_;
  uint64_t last_number_ = 0;
};

// Keeps the label of a request until it has its block.
class LabelPin {
 public:
  LabelPin() = default;
  LabelPin(Labels* labels, const LabelText& text) : labels_(labels), slot_(labels->pin(text)) {}
  // pre: the slot is pinned.
  LabelPin(Labels* labels, Labels::Slot slot) : labels_(labels), slot_(slot) {
    labels->pin_again(slot);
  }
  LabelPin(LabelPin&& other) noexcept
      : labels_(std::exchange(other.labels_, nullptr)), slot_(other.slot_) {}
  ~LabelPin() {
    if (labels_) [[unlikely]]
      labels_->unpin(slot_);
  }
  LabelPin(const LabelPin&) = delete;
  LabelPin& operator=(const LabelPin&) = delete;
  LabelPin& operator=(LabelPin&&) = delete;

  Labels::Slot slot() const { return slot_; }

 private:
  Labels* labels_ = nullptr;
  Labels::Slot slot_ = Labels::kNone;
};

// A row of cachalot_label_stats. The rows of a device follow the rules of reset of its other
// statistics.
struct LabelStats {
  LabelText label;
  Stat allocation;
  Stat allocated_bytes;

  void reset_peaks();
  void reset_accumulated();
};

// The rows of one device, one for each label that has counted there.
//
// Note [Pins of a device]
// Rationale: a pin takes the lock of all labels, which would be taken four times for a request and
// its free.
// Approach: a device pins a label once for all its blocks, and keeps the pin of the label that it
// used last, so that threads which stay with one label do not meet at that lock.
// Invariants: a device pins a slot exactly while it has `keepers`, or is the one of last_.
class LabelRows {
 public:
  explicit LabelRows(Labels& labels) : labels_(labels) {}
  ~LabelRows() { forget_last(); }
  LabelRows(const LabelRows&) = delete;
  LabelRows& operator=(const LabelRows&) = delete;

  // The slot of a label, which stays pinned until another label is used; kNone for null. Throws
  // std::bad_alloc.
  Labels::Slot use(const LabelText& text) {
    return text && text == last_.text ? last_.slot : use_other(text);
  }
  // A block keeps its label from keep() to release(). pre: the slot is pinned, and comes from
  // use().
  void keep(Labels::Slot slot) {
    if (slot <= Labels::kOther) return;
    CACHALOT_ASSERT(1, slot < rows_.size() && labels_.is_pinned(slot));
    if (!pins(slot)) [[unlikely]]
      pin_slot(slot);
    rows_[slot].keepers++;
  }
  void release(Labels::Slot slot) {
    if (slot <= Labels::kOther) return;
    CACHALOT_ASSERT(1, slot < rows_.size() && rows_[slot].keepers > 0);
    rows_[slot].keepers--;
    if (!pins(slot)) [[unlikely]]
      labels_.unpin(slot);
  }
  // pre: the slot is kept.
  void count(Labels::Slot slot, int64_t bytes) {
    CACHALOT_ASSERT(1, slot < rows_.size() && bytes > 0);
    CACHALOT_ASSERT(1, labels_.is_pinned(slot));
    Row& row = rows_[slot];
    if (!row.is_of_label) [[unlikely]]
      begin(row, slot);
    row.stats.allocation.increase(1);
    row.stats.allocated_bytes.increase(bytes);
  }
  void uncount(Labels::Slot slot, int64_t bytes) {
    CACHALOT_ASSERT(1, slot < rows_.size() && rows_[slot].number == labels_.label(slot).number);
    CACHALOT_ASSERT(1, rows_[slot].stats.allocation.current > 0);
    CACHALOT_ASSERT(1, bytes <= rows_[slot].stats.allocated_bytes.current);
    rows_[slot].stats.allocation.decrease(1);
    rows_[slot].stats.allocated_bytes.decrease(bytes);
  }
  // In the order of the labels' first uses; kOther is last. There are never fewer than before.
  std::vector<LabelStats> rows() const;
  void reset_peaks();
  void reset_accumulated();

 private:
  struct Row {
    uint64_t number = 0;  // of its label; 0: it has not counted
    LabelStats stats;
    uint64_t keepers = 0;      // blocks
    bool is_of_label = false;  // the number was compared with the label's since the slot was pinned
  };
  struct Last {
    LabelText text;  // null: none
    Labels::Slot slot = Labels::kNone;
  };

  // The rest of use(): the text is not the one of the last call.
  Labels::Slot use_other(const LabelText& text);
  void pin_slot(Labels::Slot slot);
  void forget_last();
  void reserve(Labels::Slot slot);
  // Whether this device pins the slot, see Note [Pins of a device].
  bool pins(Labels::Slot slot) const {
    return slot > Labels::kOther && (rows_[slot].keepers != 0 || slot == last_.slot);
  }
  // The row counts for the present label of the slot from now on, and no longer for a former one.
  void begin(Row& row, Labels::Slot slot);
  void end(Row& row);

  Labels& labels_;
  std::vector<Row> rows_;  // by slot
  Last last_;
};

}  // namespace cachalot
