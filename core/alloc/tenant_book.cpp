// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenant_book.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"

namespace cachalot {

using BookGuard = std::lock_guard<std::mutex>;

uint64_t TenantBook::Row::owed() const {
  return std::max(terms.guaranteed, has_with_booked()) - has();
}

void TenantBook::begin(const TenantUse& so_far) {
  const BookGuard guard(lock_);
  rows_[0].is_open = true;
  rows_[0].use = so_far;
}

void TenantBook::reserve(Slot slot) {
  const BookGuard guard(lock_);
  if (slot >= rows_.size()) rows_.resize(slot + 1);
}

void TenantBook::open(Slot slot, uint64_t id, const TenantTerms& terms, bool can_be_asked) {
  const BookGuard guard(lock_);
  rows_[slot] = {.id = id, .is_open = true, .can_be_asked = can_be_asked, .terms = terms};
}

void TenantBook::close(Slot slot) {
  const BookGuard guard(lock_);
  rows_[slot] = {};
}

void TenantBook::set_limit(uint64_t bytes) {
  const BookGuard guard(lock_);
  limit_ = bytes;
}

void TenantBook::set_physical(uint64_t bytes) {
  const BookGuard guard(lock_);
  physical_ = bytes;
}

uint64_t TenantBook::capacity() const {
  const BookGuard guard(lock_);
  return std::min(limit_, physical_);
}

std::string TenantBook::objection(Slot slot, const TenantTerms& terms) const {
  if (terms.limit < terms.guaranteed) {
    return "the limit of " + format_size(terms.limit) + " is below the guarantee of " +
           format_size(terms.guaranteed);
  }
  const BookGuard guard(lock_);
  const uint64_t capacity = std::min(limit_, physical_);
  uint64_t left = capacity;
  for (size_t i = 0; i < rows_.size(); i++) {
    if (i != slot) left -= std::min(left, rows_[i].terms.guaranteed);
  }
  if (terms.guaranteed <= left) return "";
  return "a guarantee of " + format_size(terms.guaranteed) + " does not fit: of " +
         format_size(capacity) + " " + format_size(capacity - left) +
         " are guaranteed to other tenants";
}

void TenantBook::set_terms(Slot slot, const TenantTerms& terms) {
  const BookGuard guard(lock_);
  rows_[slot].terms = terms;
}

TenantTerms TenantBook::terms(Slot slot) const {
  const BookGuard guard(lock_);
  return rows_[slot].terms;
}

// No sum runs over: no request and no row comes near 2^63 bytes.
std::optional<TenantRefusal> TenantBook::book(Slot slot, uint64_t bytes) {
  const BookGuard guard(lock_);
  Row& own = rows_[slot];
  const uint64_t had = own.has_with_booked();
  TenantRefusal refusal{.by_limit = had + bytes > own.terms.limit,
                        .had = had,
                        .terms = own.terms,
                        .capacity = std::min(limit_, physical_),
                        .had_by_all = 0,
                        .owed_to_others = 0,
                        .missing = 0};
  if (refusal.by_limit) {
    refusal.missing = had + bytes - own.terms.limit;
    return refusal;
  }
  for (const Row& row : rows_) {
    refusal.had_by_all += row.has();
    if (&row != &own) refusal.owed_to_others += row.owed();
  }
  // Where nothing is owed, the device itself tells whether there is memory.
  const uint64_t needed = refusal.had_by_all + own.booked + refusal.owed_to_others + bytes;
  const bool is_guaranteed = had + bytes <= own.terms.guaranteed;
  if (!is_guaranteed && refusal.owed_to_others > 0 && needed > refusal.capacity) {
    refusal.missing = needed - refusal.capacity;
    return refusal;
  }
  own.booked += bytes;
  return {};
}

void TenantBook::unbook(Slot slot, uint64_t bytes) {
  const BookGuard guard(lock_);
  rows_[slot].booked -= bytes;
}

void TenantBook::count(Slot slot, uint64_t bytes, uint64_t requested) {
  const BookGuard guard(lock_);
  TenantUse& use = rows_[slot].use;
  use.allocation.increase(1);
  use.allocated_bytes.increase(static_cast<int64_t>(bytes));
  use.requested_bytes.increase(static_cast<int64_t>(requested));
}

void TenantBook::uncount(Slot slot, uint64_t bytes, uint64_t requested) {
  const BookGuard guard(lock_);
  TenantUse& use = rows_[slot].use;
  use.allocation.decrease(1);
  use.allocated_bytes.decrease(static_cast<int64_t>(bytes));
  use.requested_bytes.decrease(static_cast<int64_t>(requested));
}

void TenantBook::count_refusal(Slot slot) {
  const BookGuard guard(lock_);
  rows_[slot].use.num_ooms++;
}

uint64_t TenantBook::settle_pressure(Slot slot, uint64_t id, uint64_t had) {
  const BookGuard guard(lock_);
  Row& row = rows_[slot];
  if (row.id != id) return 0;
  const uint64_t freed = had - std::min(had, row.has());
  row.use.num_pressure_calls++;
  row.use.pressure_freed_bytes += static_cast<int64_t>(freed);
  return freed;
}

TenantBook::Slot TenantBook::slots() const {
  const BookGuard guard(lock_);
  return static_cast<Slot>(rows_.size());
}

TenantUse TenantBook::use(Slot slot) const {
  const BookGuard guard(lock_);
  return rows_[slot].use;
}

bool TenantBook::is_unused(Slot slot) const {
  const BookGuard guard(lock_);
  return rows_[slot].has_with_booked() == 0;
}

void TenantBook::reset_peaks() {
  const BookGuard guard(lock_);
  for (Row& row : rows_) {
    row.use.allocation.reset_peak();
    row.use.allocated_bytes.reset_peak();
    row.use.requested_bytes.reset_peak();
  }
}

void TenantBook::reset_accumulated() {
  const BookGuard guard(lock_);
  for (Row& row : rows_) {
    row.use.allocation.reset_accumulated();
    row.use.allocated_bytes.reset_accumulated();
    row.use.requested_bytes.reset_accumulated();
    row.use.num_ooms = row.use.num_pressure_calls = row.use.pressure_freed_bytes = 0;
  }
}

bool TenantBook::is_asked_before(const Row& a, const Row& b, const Row& requester) const {
  const auto place = [&](const Row& row) {
    const bool is_last = &row == &requester && requester.is_within_guarantee();
    const auto above = static_cast<int64_t>(row.has()) - static_cast<int64_t>(row.terms.guaranteed);
    return std::make_tuple(is_last, row.terms.priority, -above, row.id);
  };
  return place(a) < place(b);
}

std::optional<TenantBook::Candidate> TenantBook::next_to_ask(
    Slot requester, bool only_itself, const std::vector<uint64_t>& done) const {
  const BookGuard guard(lock_);
  const Row& own = rows_[requester];
  const auto may_be_asked = [&](const Row& row) {
    if (!row.can_be_asked || row.has() == 0) return false;
    if (std::find(done.begin(), done.end(), row.id) != done.end()) return false;
    if (&row == &own) return true;
    return !only_itself && row.has() > row.terms.guaranteed &&
           (own.is_within_guarantee() || row.terms.priority <= own.terms.priority);
  };
  const Row* next = nullptr;
  for (const Row& row : rows_) {
    if (may_be_asked(row) && (!next || is_asked_before(row, *next, own))) next = &row;
  }
  if (!next) return {};
  return Candidate{next->id, static_cast<Slot>(next - rows_.data()), next->has(),
                   next->terms.guaranteed, own.is_within_guarantee()};
}

}  // namespace cachalot
