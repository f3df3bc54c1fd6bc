// SPDX-License-Identifier: MIT OR Apache-2.0
// Tenants in the order of their creation, which is that of their ids. None of its functions costs
// more with more tenants, but for a search by halves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/assert.h"

namespace cachalot {

struct Tenant;

// Shares the ownership of the tenants that are there. The lock of Tenants guards it. Invariants:
// entries ascend by id; `gone_` of them have no tenant.
class TenantList {
 public:
  size_t size() const {
    CACHALOT_ASSERT(1, gone_ <= entries_.size());
    return entries_.size() - gone_;
  }
  std::shared_ptr<Tenant> find(uint64_t id) const;  // null: gone
  // By its place among those that are there. pre: index < size().
  const Tenant& at(size_t index);
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Entry& entry : entries_) {
      if (entry.tenant) visit(*entry.tenant);
    }
  }

  void reserve_one();                           // so that add() cannot fail
  void add(std::shared_ptr<Tenant> tenant);     // pre: ids ascend
  std::shared_ptr<Tenant> remove(uint64_t id);  // pre: it is there

 private:
  struct Entry {
    uint64_t id;
    std::shared_ptr<Tenant> tenant;  // null: gone
  };

  // Where the id is, or where it would be.
  size_t place_of(uint64_t id) const;
  void drop_gone();

  // Entries of tenants that are gone are dropped when they are half of all, or when a place is
  // asked for.
  std::vector<Entry> entries_;
  size_t gone_ = 0;
};

}  // namespace cachalot
