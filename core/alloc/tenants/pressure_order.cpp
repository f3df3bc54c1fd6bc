// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/pressure_order.h"

#include <utility>

#include "base/assert.h"

namespace cachalot {

PressureOrder::Member::Member() : note_{this}, noted_at_(note_.begin()) {
  // Both nodes are made here, so that no later change of place can fail.
  Places made;
  node_ = made.extract(made.insert(Place{}).first);
}

// The note's node moves to the end of `noted_`; it is empty here if it lies there already.
void PressureOrder::note(Member& member, const std::optional<Place>& wanted) {
  member.wanted_ = wanted;
  if (!member.note_.empty()) noted_.splice(noted_.end(), member.note_);
}

void PressureOrder::leave(Member& member) {
  note(member, {});
  update(member);
}

// Allocations and frees only note a member: few requests read the order, so they pay for it.
const PressureOrder::Places& PressureOrder::up_to_date() {
  while (!noted_.empty()) update(*noted_.front());
  return places_;
}

// The old place goes before the new one is taken, with the same node.
void PressureOrder::update(Member& member) {
  member.note_.splice(member.note_.begin(), noted_, member.noted_at_);
  CACHALOT_ASSERT(1, !member.note_.empty());
  if (member.node_.empty()) member.node_ = places_.extract(member.at_);
  CACHALOT_ASSERT(1, !member.node_.empty());
  if (member.wanted_) {
    member.node_.value() = *member.wanted_;
    const auto inserted = places_.insert(std::move(member.node_));
    CACHALOT_ASSERT(1, inserted.inserted);  // each has an id of its own
    member.at_ = inserted.position;
  }
  version_++;
}

}  // namespace cachalot
