// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/memory_budget.h"

namespace cachalot {

uint64_t MemoryBudget::left() {
  const std::lock_guard guard(lock_);
  return limit_ - used_;
}

bool MemoryBudget::take(uint64_t size) {
  if (!has_limit()) return true;
  const std::lock_guard guard(lock_);
  if (size > limit_ - used_) return false;
  used_ += size;
  return true;
}

void MemoryBudget::keep(Kind kind, uint64_t key, uint64_t size) {
  if (!has_limit()) return;
  const std::lock_guard guard(lock_);
  sizes_[{kind, key}] = size;
}

void MemoryBudget::give_back(uint64_t size) {
  if (!has_limit()) return;
  const std::lock_guard guard(lock_);
  used_ -= size;
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
