// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/memory_budget.h"

#include "base/assert.h"

namespace cachalot {

uint64_t MemoryBudget::left() {
  const std::lock_guard guard(lock_);
  CACHALOT_ASSERT(1, has_limit() && used_ <= limit_);
  return limit_ - used_;
}

std::optional<uint64_t> MemoryBudget::take(uint64_t size) {
  if (!has_limit()) return 0;
  const std::lock_guard guard(lock_);
  CACHALOT_ASSERT(1, used_ <= limit_);
  if (size > limit_ - used_) return {};
  sizes_[{Kind::kTicket, last_ticket_ + 1}] = size;
  used_ += size;
  return ++last_ticket_;
}

// The row changes its key and stays where it lies.
void MemoryBudget::keep(uint64_t ticket, Kind kind, uint64_t key) noexcept {
  if (!has_limit()) return;
  const std::lock_guard guard(lock_);
  auto row = sizes_.extract({Kind::kTicket, ticket});
  CACHALOT_ASSERT(1, !row.empty());
  row.key() = {kind, key};
  const bool is_new = sizes_.insert(std::move(row)).inserted;
  CACHALOT_ASSERT(1, is_new);
}

void MemoryBudget::give_back(Kind kind, uint64_t key) {
  if (!has_limit()) return;
  const std::lock_guard guard(lock_);
  const auto found = sizes_.find({kind, key});
  if (found == sizes_.end()) return;
  CACHALOT_ASSERT(1, found->second <= used_);
  used_ -= found->second;
  sizes_.erase(found);
}

}  // namespace cachalot
