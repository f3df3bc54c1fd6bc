// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/labels.h"

#include <algorithm>

#include "base/assert.h"
#include "base/reserve.h"
#include "base/sums.h"

namespace cachalot {

namespace {

using LabelGuard = std::lock_guard<Mutex>;

// Of labels that have no row of their own.
constexpr const char* kOtherText = "(other)";

}  // namespace

// The row of kOther is last in the order of numbers, whatever labels come.
Labels::Labels() : entries_(2) {
  entries_[kOther].label = {UINT64_MAX, std::make_shared<const std::string>(kOtherText)};
}

// Nothing pins kOther: its slot never goes to another label.
Labels::Slot Labels::pin(const LabelText& text) {
  if (!text) return kNone;
  const LabelGuard guard(lock_);
  const Slot slot = slot_for(text);
  Entry& entry = entries_[slot];
  if (slot != kOther && entry.pins++ == 0) busy_.splice(busy_.end(), idle_, entry.at);
  return slot;
}

void Labels::pin_again(Slot slot) {
  if (slot <= kOther) return;
  CACHALOT_ASSERT(1, is_pinned(slot));
  const LabelGuard guard(lock_);
  entries_[slot].pins++;
}

// The label becomes the one that has been idle for the shortest time.
void Labels::unpin(Slot slot) {
  if (slot <= kOther) return;
  const LabelGuard guard(lock_);
  CACHALOT_ASSERT(1, slot < entries_.size() && entries_[slot].pins > 0);
  Entry& entry = entries_[slot];
  if (--entry.pins == 0) idle_.splice(idle_.end(), busy_, entry.at);
}

Labels::Label Labels::label(Slot slot) const {
  const LabelGuard guard(lock_);
  CACHALOT_ASSERT(1, slot < entries_.size());
  return entries_[slot].label;
}

bool Labels::is_pinned(Slot slot) const {
  const LabelGuard guard(lock_);
  return slot == kOther || (slot < entries_.size() && entries_[slot].pins > 0);
}

// Each slot but the first two is idle or busy, and is found by its text.
bool Labels::is_sound() const {
  lock_.assert_held();
  return idle_.size() + busy_.size() == entries_.size() - 2 && slots_.size() <= entries_.size() - 2;
}

std::string Labels::text(Slot slot) const {
  const LabelText text = label(slot).text;
  return text ? *text : "";
}

Labels::Slot Labels::slot_for(const LabelText& text) {
  CACHALOT_ASSERT(1, is_sound());
  const auto known = slots_.find(*text);
  if (known != slots_.end()) return known->second;
  // Slots that were never given come first, so that a label keeps its sums for as long as possible.
  if (entries_.size() < kMost + 2) {
    name(new_slot(), text);
  } else if (idle_.empty()) {
    return kOther;
  } else {
    name(idle_.front(), text);
  }
  return slots_.find(*text)->second;
}

// It is idle and has no label yet.
Labels::Slot Labels::new_slot() {
  reserve_one_more(entries_);
  const auto slot = static_cast<Slot>(entries_.size());
  idle_.push_front(slot);
  entries_.push_back({{0, nullptr}, 0, idle_.begin()});
  return slot;
}

// The new name is added before the old one goes: only the first can fail. The map's key is a view
// of the text, which the entry keeps alive.
void Labels::name(Slot slot, const LabelText& text) {
  CACHALOT_ASSERT(1, entries_[slot].pins == 0 && !slots_.contains(*text));
  slots_.emplace(*text, slot);
  Label& label = entries_[slot].label;
  if (label.text) slots_.erase(*label.text);
  label = {++last_number_, text};
}

void LabelStats::reset_peaks() {
  allocation.reset_peak();
  allocated_bytes.reset_peak();
}

void LabelStats::reset_accumulated() {
  allocation.reset_accumulated();
  allocated_bytes.reset_accumulated();
}

// So that count() needs no memory.
void LabelRows::reserve(Labels::Slot slot) {
  if (slot < rows_.size()) return;
  reserve_for(rows_, slot + 1);
  rows_.resize(slot + 1);
}

// The last label goes first: its slot may be the only one that is not in use.
Labels::Slot LabelRows::use_other(const LabelText& text) {
  if (!text) return Labels::kNone;
  if (last_.text && *text == *last_.text) {
    last_.text = text;
    return last_.slot;
  }
  forget_last();
  const LabelPin pin(&labels_, text);
  const Labels::Slot slot = pin.slot();
  reserve(slot);
  if (slot == Labels::kOther) return slot;  // the label may have a slot the next time
  if (!pins(slot)) pin_slot(slot);
  last_ = {text, slot};
  return slot;
}

// For the device, which has not pinned it.
void LabelRows::pin_slot(Labels::Slot slot) {
  labels_.pin_again(slot);
  rows_[slot].is_of_label = false;
}

void LabelRows::forget_last() {
  const Last last = std::exchange(last_, {});
  if (last.text && rows_[last.slot].keepers == 0) labels_.unpin(last.slot);
}

void LabelRows::begin(Row& row, Labels::Slot slot) {
  const Labels::Label label = labels_.label(slot);
  if (row.number != label.number) end(row);
  row.number = label.number;
  row.stats.label = label.text;
  row.is_of_label = true;
}

// Its label has no block any more, so that there are sums only.
void LabelRows::end(Row& row) {
  if (row.number == 0) return;
  CACHALOT_ASSERT(1, row.stats.allocation.current == 0 && row.stats.allocated_bytes.current == 0);
  const Labels::Label label = labels_.label(Labels::kOther);
  Row& other = rows_[Labels::kOther];
  const auto add = [](Stat& sum, const Stat& gone) {
    sum.allocated = add_to_sum(sum.allocated, gone.allocated);
    sum.freed = add_to_sum(sum.freed, gone.freed);
  };
  add(other.stats.allocation, row.stats.allocation);
  add(other.stats.allocated_bytes, row.stats.allocated_bytes);
  // From now on the row is shown.
  other.number = label.number;
  other.stats.label = label.text;
  row.stats = {};
}

// Rows of slots that another label has taken meanwhile, elsewhere, are still shown under their own
// label here, until this device counts a block of the new one.
std::vector<LabelStats> LabelRows::rows() const {
  std::vector<const Row*> counted;
  for (const Row& row : rows_) {
    if (row.number != 0) counted.push_back(&row);
  }
  std::sort(counted.begin(), counted.end(),
            [](const Row* a, const Row* b) { return a->number < b->number; });
  std::vector<LabelStats> stats;
  stats.reserve(counted.size());
  for (const Row* row : counted) stats.push_back(row->stats);
  return stats;
}

void LabelRows::reset_peaks() {
  for (Row& row : rows_) row.stats.reset_peaks();
}

void LabelRows::reset_accumulated() {
  for (Row& row : rows_) row.stats.reset_accumulated();
}

}  // namespace cachalot
