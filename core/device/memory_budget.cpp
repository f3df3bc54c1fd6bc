// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/memory_budget.h"

namespace cachalot {

uint64_t MemoryBudget::left() {
  const std::lock_guard guard(lock_);
  return limit_ - used_;
}

std::optional<uint64_t> MemoryBudget::take(uint64_t size) {
  if (!has_limit()) return 0;
  const std::lock_guard guard(lock_);
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
  row.key() = {kind, key};
  sizes_.insert(std::move(row));
}

void MemoryBudget::give_back(Kind kind, uint64_t key) {
  if (!has_limit()) return;
  const std::lock_guard guard(lock_);
  const auto found = sizes_.find({kind, key});
  if (found == sizes_.end()) return;
  used_ -= found->second;
  sizes_.erase(found);
}

}  // namespace cachalot
