// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/tenant_ledger.h"

#include <algorithm>
#include <mutex>

#include "base/sums.h"
#include "base/text.h"

namespace cachalot {

using BookGuard = std::lock_guard<Lock>;

void TenantUse::reset_peaks() {
  for (Stat* stat : {&allocation, &allocated_bytes, &requested_bytes}) stat->reset_peak();
}

void TenantUse::reset_accumulated() {
  for (Stat* stat : {&allocation, &allocated_bytes, &requested_bytes}) stat->reset_accumulated();
  num_ooms = num_pressure_calls = pressure_freed_bytes = 0;
}

uint64_t TenantLedger::Row::owed() const {
  return std::max(terms.guaranteed, has_with_booked()) - has();
}

PressureOrder::Place TenantLedger::Row::place(Slot slot) const {
  const int64_t below = shown_bytes(terms.guaranteed) - static_cast<int64_t>(has());
  return {terms.priority, below, id, slot};
}

// No sum runs over: no request and no row comes near 2^63 bytes.
void TenantLedger::Sums::add(const Row& row) {
  guaranteed += row.terms.guaranteed;
  has += row.has();
  owed += row.owed();
}

void TenantLedger::Sums::subtract(const Row& row) {
  CACHALOT_ASSERT(1, row.terms.guaranteed <= guaranteed && row.has() <= has && row.owed() <= owed);
  guaranteed -= row.terms.guaranteed;
  has -= row.has();
  owed -= row.owed();
}

bool TenantLedger::is_taken(Slot slot) const {
  lock_.assert_held();
  return slot < rows_.size() && rows_[slot];
}

bool TenantLedger::is_sound() const {
  lock_.assert_held();
  Sums sums;
  for (const auto& row : rows_) {
    if (row) sums.add(*row);
  }
  return sums == sums_ && open_ < rows_.size();
}

// A row's part of the sums is taken out before the change and put back behind it, so that no caller
// can forget a sum. A tenant at or below its guarantee gives nothing, so it loses its place in the
// order.
template <class Change>
void TenantLedger::change(Slot slot, Change change) {
  Row& changed = row(slot);
  sums_.subtract(changed);
  change(changed);
  sums_.add(changed);
  if (!changed.can_be_asked) return;
  const bool gives = changed.has() > changed.terms.guaranteed;
  order_.note(changed.in_order, gives ? std::optional(changed.place(slot)) : std::nullopt);
}

TenantLedger::TenantLedger() { rows_.push_back(std::make_unique<Row>()); }

// Called once, when the first tenant is made: before that blocks are not counted for tenants.
void TenantLedger::begin(const TenantUse& so_far) {
  const BookGuard guard(lock_);
  change(0, [&](Row& row) { row.use = so_far; });
}

// A failure between the ledgers of two devices leaves a row without a tenant, which counts for
// nothing and serves the next tenant of the slot.
void TenantLedger::reserve(Slot slot) {
  const BookGuard guard(lock_);
  if (slot >= rows_.size()) rows_.resize(slot + 1);
  if (!rows_[slot]) rows_[slot] = std::make_unique<Row>();
}

// The id comes first: the place in the order depends on it.
void TenantLedger::open(Slot slot, uint64_t id, const TenantTerms& terms, bool can_be_asked) {
  const BookGuard guard(lock_);
  CACHALOT_ASSERT(1, slot != 0 && id != 0 && row(slot).id == 0);
  CACHALOT_ASSERT(1, terms.guaranteed <= terms.limit);
  row(slot).id = id;
  row(slot).can_be_asked = can_be_asked;
  change(slot, [&](Row& row) { row.terms = terms; });
  open_++;
}

void TenantLedger::let_be_asked(Slot slot) {
  const BookGuard guard(lock_);
  row(slot).can_be_asked = true;
  change(slot, [](Row&) {});  // which gives it its place in the order
}

void TenantLedger::close(Slot slot) {
  const BookGuard guard(lock_);
  CACHALOT_ASSERT(1, slot != 0 && open_ > 0 && row(slot).has_with_booked() == 0);
  sums_.subtract(row(slot));
  order_.leave(row(slot).in_order);
  rows_[slot].reset();
  if (--open_ > 0) return;
  // The last tenant is gone. What many tenants needed is not kept for none.
  rows_.resize(1);
  rows_.shrink_to_fit();
}

// Guarantees that were given stay, even where they exceed the new limit: a request within one may
// then fail all the same.
void TenantLedger::set_limit(uint64_t bytes) {
  const BookGuard guard(lock_);
  limit_ = bytes;
}

void TenantLedger::set_physical(uint64_t bytes) {
  const BookGuard guard(lock_);
  physical_ = bytes;
}

uint64_t TenantLedger::capacity() const {
  const BookGuard guard(lock_);
  return std::min(limit_, physical_);
}

std::string TenantLedger::objection(Slot slot, const TenantTerms& terms) const {
  if (terms.limit < terms.guaranteed) {
    return "the limit of " + format_size(terms.limit) + " is below the guarantee of " +
           format_size(terms.guaranteed);
  }
  const BookGuard guard(lock_);
  const uint64_t capacity = std::min(limit_, physical_);
  const uint64_t own = slot == kNone ? 0 : row(slot).terms.guaranteed;
  // Guarantees can exceed the capacity after all: the limit of memory may have been lowered since.
  const uint64_t left = capacity - std::min(capacity, sums_.guaranteed - own);
  if (terms.guaranteed <= left) return "";
  return "a guarantee of " + format_size(terms.guaranteed) + " does not fit: of " +
         format_size(capacity) + " " + format_size(capacity - left) +
         " are guaranteed to other tenants";
}

void TenantLedger::set_terms(Slot slot, const TenantTerms& terms) {
  const BookGuard guard(lock_);
  CACHALOT_ASSERT(1, terms.guaranteed <= terms.limit);
  change(slot, [&](Row& row) { row.terms = terms; });
}

TenantTerms TenantLedger::terms(Slot slot) const {
  const BookGuard guard(lock_);
  return row(slot).terms;
}

// The numbers of a refusal are read under the same lock, so that its text agrees with the decision.
std::optional<TenantRefusal> TenantLedger::book(Slot slot, uint64_t bytes) {
  CACHALOT_ASSERT(1, bytes > 0);
  const BookGuard guard(lock_);
  const Row& own = row(slot);
  const Shortage missing = shortage(own, bytes);
  if (missing.bytes != 0) {
    return TenantRefusal{.by_limit = missing.is_by_limit,
                         .had = own.has_with_booked(),
                         .terms = own.terms,
                         .capacity = std::min(limit_, physical_),
                         .had_by_all = sums_.has,
                         .owed_to_others = sums_.owed - own.owed(),
                         .missing = missing.bytes};
  }
  change(slot, [&](Row& row) { row.booked += bytes; });
  return {};
}

// [tenant 1 to 3] The own limit comes first: where it is passed, no other tenant can help. A
// request within its guarantee is granted whatever others have: no other request was granted those
// bytes.
TenantLedger::Shortage TenantLedger::shortage(const Row& own, uint64_t bytes) const {
  lock_.assert_held();
  const uint64_t with_these = own.has_with_booked() + bytes;
  if (with_these > own.terms.limit) return {true, with_these - own.terms.limit};
  // Where nothing is owed, the device itself tells whether there is memory.
  if (sums_.owed == 0) return {false, 0};
  const uint64_t owed_to_others = sums_.owed - own.owed();
  const bool is_guaranteed = with_these <= own.terms.guaranteed;
  if (is_guaranteed || owed_to_others == 0) return {false, 0};
  // What others have booked is part of what they are owed.
  const uint64_t needed = sums_.has + own.booked + owed_to_others + bytes;
  const uint64_t capacity = std::min(limit_, physical_);
  return {false, needed - std::min(needed, capacity)};
}

bool TenantLedger::count_if_granted(Slot slot, uint64_t asked, uint64_t bytes, uint64_t requested) {
  const BookGuard guard(lock_);
  if (shortage(row(slot), asked).bytes != 0) return false;
  add_block(slot, bytes, requested);
  return true;
}

void TenantLedger::unbook(Slot slot, uint64_t bytes) {
  const BookGuard guard(lock_);
  CACHALOT_ASSERT(1, bytes <= row(slot).booked);
  change(slot, [&](Row& row) { row.booked -= bytes; });
}

void TenantLedger::count(Slot slot, uint64_t bytes, uint64_t requested) {
  const BookGuard guard(lock_);
  add_block(slot, bytes, requested);
}

// Common to count() and count_if_granted(), which hold the lock already.
void TenantLedger::add_block(Slot slot, uint64_t bytes, uint64_t requested) {
  lock_.assert_held();
  CACHALOT_ASSERT(1, requested <= bytes);
  change(slot, [&](Row& row) { row.use.add_block(bytes, requested); });
}

// At the caller's free, not when it completes: a tenant no longer has memory that it has freed.
void TenantLedger::uncount(Slot slot, uint64_t bytes, uint64_t requested) {
  const BookGuard guard(lock_);
  CACHALOT_ASSERT(1, row(slot).use.allocation.current > 0 && bytes <= row(slot).has());
  change(slot, [&](Row& row) {
    row.use.allocation.decrease(1);
    row.use.allocated_bytes.decrease(static_cast<int64_t>(bytes));
    row.use.requested_bytes.decrease(static_cast<int64_t>(requested));
  });
}

// What the tenant has sinks by the frees of the blocks; this only keeps it from ending.
void TenantLedger::fall_asleep(Slot slot, uint64_t bytes) {
  const BookGuard guard(lock_);
  row(slot).use.asleep_bytes += bytes;
}

void TenantLedger::forget_asleep(Slot slot, uint64_t bytes) {
  const BookGuard guard(lock_);
  CACHALOT_ASSERT(1, bytes <= row(slot).use.asleep_bytes);
  row(slot).use.asleep_bytes -= bytes;
}

void TenantLedger::count_refusal(Slot slot) {
  const BookGuard guard(lock_);
  row(slot).use.num_ooms++;
}

uint64_t TenantLedger::end_pressure(Slot slot, uint64_t id, uint64_t had) {
  const BookGuard guard(lock_);
  // The callback ran without any lock. Its tenant may have ended meanwhile, and the slot may be
  // another tenant's.
  if (slot >= rows_.size() || !rows_[slot] || row(slot).id != id) return 0;
  Row& asked = row(slot);
  // Other threads of the tenant may have allocated during the callback, so the difference is a
  // lower bound.
  const uint64_t freed = had - std::min(had, asked.has());
  asked.use.num_pressure_calls++;
  asked.use.pressure_freed_bytes =
      add_to_sum(asked.use.pressure_freed_bytes, static_cast<int64_t>(freed));
  return freed;
}

uint64_t TenantLedger::id(Slot slot) const {
  const BookGuard guard(lock_);
  return slot < rows_.size() && rows_[slot] ? rows_[slot]->id : 0;
}

TenantUse TenantLedger::use(Slot slot) const {
  const BookGuard guard(lock_);
  return row(slot).use;
}

std::vector<std::pair<TenantLedger::Slot, TenantUse>> TenantLedger::uses() const {
  const BookGuard guard(lock_);
  CACHALOT_ASSERT(2, is_sound());
  std::vector<std::pair<Slot, TenantUse>> uses;
  for (Slot slot = 0; slot < rows_.size(); slot++) {
    if (rows_[slot]) uses.emplace_back(slot, rows_[slot]->use);
  }
  return uses;
}

bool TenantLedger::is_unused(Slot slot) const {
  const BookGuard guard(lock_);
  return row(slot).has_with_booked() == 0 && row(slot).use.asleep_bytes == 0;
}

void TenantLedger::reset_peaks() {
  const BookGuard guard(lock_);
  CACHALOT_ASSERT(2, is_sound());
  for (const auto& row : rows_) {
    if (row) row->use.reset_peaks();
  }
}

// Blocks and booked bytes of tenants stay.
void TenantLedger::reset_accumulated() {
  const BookGuard guard(lock_);
  for (const auto& row : rows_) {
    if (row) row->use.reset_accumulated();
  }
}

// The first of the others that may be asked at all and was not yet; null: none is left.
const PressureOrder::Place* TenantLedger::next_other(Slot requester, Search& search) {
  lock_.assert_held();
  const PressureOrder::Places& places = order_.up_to_date();
  const bool goes_on = search.passed && search.version == order_.version();
  auto at = goes_on ? places.upper_bound(*search.passed) : places.begin();
  for (; at != places.end(); ++at) {
    if (at->slot != requester && !search.done.contains(at->id)) break;
    search.passed = *at;
  }
  search.version = order_.version();
  const Row& own = row(requester);
  const bool may_ask =
      at != places.end() && (own.is_within_guarantee() || at->priority <= own.terms.priority);
  return may_ask ? &*at : nullptr;
}

std::optional<TenantLedger::Candidate> TenantLedger::next_to_ask(Slot requester, bool only_itself,
                                                                 Search& search) {
  const BookGuard guard(lock_);
  const Row& own = row(requester);
  const PressureOrder::Place* const other = only_itself ? nullptr : next_other(requester, search);
  const bool can_ask_itself = own.can_be_asked && own.has() > 0 && !search.done.contains(own.id);
  const bool asks_itself =
      can_ask_itself && (!other || (!own.is_within_guarantee() && own.place(requester) < *other));
  if (!asks_itself && !other) return {};
  const Slot slot = asks_itself ? requester : other->slot;
  const Row& next = row(slot);
  CACHALOT_ASSERT(1, next.can_be_asked && !search.done.contains(next.id));
  CACHALOT_ASSERT(1, asks_itself || (next.id == other->id && next.has() > next.terms.guaranteed));
  return Candidate{next.id, slot, next.has(), next.terms.guaranteed, own.is_within_guarantee()};
}

}  // namespace cachalot
