// SPDX-License-Identifier: MIT OR Apache-2.0
// The tenants of a thread: those that it has begun, and the one that it is asking for memory.
#pragma once

#include <memory>

#include "alloc/tenants/tenants.h"

namespace cachalot {

// Innermost last; each allocator's tenants count for that allocator only.
void begin_tenant(const std::shared_ptr<Tenant>& tenant);
bool end_tenant(const Tenant& tenant);                         // false: it is not the innermost
TenantLedger::Slot current_tenant(const Tenants& allocators);  // 0: none was begun

// A request from within asks no callback.
class AskingTenant {
 public:
  explicit AskingTenant(const Tenant& tenant);
  ~AskingTenant();
  AskingTenant(const AskingTenant&) = delete;
  AskingTenant& operator=(const AskingTenant&) = delete;
};

bool is_asking_a_tenant();
// By this thread.
bool is_being_asked(const Tenant& tenant);

}  // namespace cachalot
