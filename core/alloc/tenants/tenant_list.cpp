// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/tenant_list.h"

#include <algorithm>
#include <utility>

#include "alloc/tenants/tenants.h"
#include "base/reserve.h"

namespace cachalot {

// By halves: ids ascend, and none is given twice.
size_t TenantList::place_of(uint64_t id) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), id,
                       [](const Entry& entry, uint64_t sought) { return entry.id < sought; });
  return static_cast<size_t>(at - entries_.begin());
}

// An entry whose tenant is gone gives null, as an id that never was.
std::shared_ptr<Tenant> TenantList::find(uint64_t id) const {
  const size_t place = place_of(id);
  if (place == entries_.size() || entries_[place].id != id) return nullptr;
  return entries_[place].tenant;
}

const Tenant& TenantList::at(size_t index) {
  CACHALOT_ASSERT(1, index < size());
  // An index counts only the tenants that are there.
  if (gone_ > 0) drop_gone();
  return *entries_[index].tenant;
}

void TenantList::reserve_one() { reserve_one_more(entries_); }

// pre: reserve_one().
void TenantList::add(std::shared_ptr<Tenant> tenant) {
  const uint64_t id = tenant->id;
  CACHALOT_ASSERT(1, entries_.empty() || entries_.back().id < id);
  CACHALOT_ASSERT(1, entries_.size() < entries_.capacity());
  entries_.push_back({id, std::move(tenant)});
}

std::shared_ptr<Tenant> TenantList::remove(uint64_t id) {
  CACHALOT_ASSERT(1, find(id));
  std::shared_ptr<Tenant> removed = std::move(entries_[place_of(id)].tenant);
  // Entries behind it would move at each removal, so gone ones stay until they are half of all.
  gone_++;
  if (gone_ * 2 >= entries_.size()) drop_gone();
  return removed;
}

void TenantList::drop_gone() {
  std::erase_if(entries_, [](const Entry& entry) { return !entry.tenant; });
  gone_ = 0;
  CACHALOT_ASSERT(2, std::is_sorted(entries_.begin(), entries_.end(),
                                    [](const Entry& a, const Entry& b) { return a.id < b.id; }));
  // Not at twice the size: the next creation would take the memory again.
  if (entries_.capacity() > 4 * entries_.size()) entries_.shrink_to_fit();
}

}  // namespace cachalot
